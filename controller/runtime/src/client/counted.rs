//! Counts requests by code, method and resource.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tower::Service;

use crate::metrics::Metrics;

/// The transport, counted.
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

impl<S, In, Out> Service<Request<In>> for Counted<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let method = request.method().clone();
        let resource = resource_of(request.uri().path()).to_owned();
        let metrics = self.metrics.clone();
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            match &answer {
                Ok(response) => metrics.request(response.status().as_str(), method.as_str(), &resource),
                Err(_) => metrics.request("<error>", method.as_str(), &resource),
            }
            answer
        }
        .boxed()
    }
}

/// The resource that a path is about: a bounded set of words, whatever objects there are.
fn resource_of(path: &str) -> &str {
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
mod tests {
    use super::resource_of;

    #[test]
    fn resources_of_paths() {
        for (path, resource) in [
            ("/api/v1/pods", "pods"),
            ("/api/v1/namespaces/a/pods/b/status", "pods"),
            ("/api/v1/namespaces/a", "namespaces"),
            ("/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets/b", "clonesets"),
            ("/apis/apps.kruise.io/v1beta1/nodeimages/b", "nodeimages"),
            ("/apis/apps.kruise.io", ""),
            ("/version", ""),
            ("/", ""),
        ] {
            assert_eq!(resource_of(path), resource, "{path}");
        }
    }
}
