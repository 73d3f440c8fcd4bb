//! Counts requests by code, method and resource.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use berth_api::kinds;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tower::{BoxError, Service};

use crate::metrics::Metrics;

/// The transport, with counted requests.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }
}

/// The longest time until an answer begins: the apiserver itself takes at most a minute, and a
/// watch begins at once.
const LONGEST: Duration = Duration::from_secs(65);

/// A request under way. It is counted when this value is dropped, even if the caller no longer
/// waits for the answer.
struct Count {
    metrics: Arc<Metrics>,
    method: Method,
    resource: &'static str,
    /// Set once there is an answer.
    code: Option<StatusCode>,
}

impl Drop for Count {
    fn drop(&mut self) {
        let code = self.code.as_ref().map_or("<error>", StatusCode::as_str);
        self.metrics
            .request(code, self.method.as_str(), self.resource);
    }
}

impl<S, In, Out> Service<Request<In>> for Counted<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let (method, resource) = (request.method().clone(), resource_of(request.uri().path()));
        let metrics = self.metrics.clone();
        let answer = self.inner.call(request);
        async move {
            let mut count = Count {
                metrics,
                method,
                resource,
                code: None,
            };
            let answer = tokio::time::timeout(LONGEST, answer).await;
            let answer = answer
                .map_err(|_| format!("no answer in {LONGEST:?}"))?
                .map_err(Into::into)?;
            count.code = Some(answer.status());
            Ok(answer)
        }
        .boxed()
    }
}

/// The resources that Berth requests in addition to its own kinds.
const RESOURCES: [&str; 14] = [
    "configmaps",
    "controllerrevisions",
    "customresourcedefinitions",
    "endpointslices",
    "events",
    "leases",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "pods",
    "podtemplates",
    "secrets",
    "tokenreviews",
    "validatingwebhookconfigurations",
];

/// The resource of a path: one of Berth's kinds or of [`RESOURCES`], `other`, or empty if the path
/// has none. If a user could choose the label's value, each value would make a series, and no
/// series is ever dropped.
fn resource_of(path: &str) -> &'static str {
    let named = segment(path);
    if named.is_empty() {
        return "";
    }
    let ours = kinds::of_plural(named).map(|kind| kind.plural);
    ours.or_else(|| RESOURCES.into_iter().find(|resource| *resource == named))
        .unwrap_or("other")
}

fn segment(path: &str) -> &str {
    let mut parts = path.trim_start_matches('/').split('/');
    let version = match parts.next() {
        Some("api") => parts.next(),
        Some("apis") => parts.nth(1),
        _ => None,
    };
    if version.is_none() {
        return "";
    }
    match parts.next() {
        Some("namespaces") => match (parts.next(), parts.next()) {
            (_, Some(resource)) => resource,
            _ => "namespaces",
        },
        other => other.unwrap_or(""),
    }
}

#[cfg(test)]
mod tests;
