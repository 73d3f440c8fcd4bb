//! An apiserver in memory, for tests that need to say when it answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A client whose requests `answer` answers.
pub(crate) fn apiserver<F, A>(answer: F) -> Client
where
    F: Fn(Request<Body>) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let service = tower::service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    Client::new(service, "default")
}

pub(crate) fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}

/// A server with one lease, on which all other writes take a while.
#[derive(Clone, Default)]
pub(crate) struct SlowWrites {
    pub(crate) lease: Arc<Mutex<(u64, Option<Value>)>>,
    /// The duration of each write except of the lease and events. A write with a shorter deadline
    /// is not done.
    takes: Duration,
    /// The lengths of the lease that were written, in seconds.
    pub(crate) lengths: Arc<Mutex<Vec<u64>>>,
    events: Arc<Mutex<Vec<String>>>,
    /// How many further writes of the lease are refused.
    pub(crate) refused_leases: Arc<AtomicU32>,
}

impl SlowWrites {
    pub(crate) fn that_take(takes: Duration) -> Self {
        Self {
            takes,
            ..Self::default()
        }
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        apiserver(move |request| server.clone().respond(request))
    }

    /// The reasons of the events that were recorded.
    pub(crate) fn recorded(&self) -> Vec<String> {
        self.events.lock().clone()
    }

    async fn respond(self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default();
        let body: Value =
            serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
        if query.contains("watch=") {
            return std::future::pending().await;
        }
        if parts.uri.path().contains("/leases") {
            return self.lease(&parts.method, body);
        }
        if parts.uri.path().contains("/events") {
            self.events.lock().push(body["reason"].to_string());
            return answer(StatusCode::CREATED, &body);
        }
        let timeout = query.split('&').find_map(|pair| {
            pair.strip_prefix("timeout=")?
                .strip_suffix("ms")?
                .parse()
                .ok()
        });
        let given = timeout.map_or(Duration::MAX, Duration::from_millis);
        if given < self.takes {
            tokio::time::sleep(given).await;
            return answer(
                StatusCode::GATEWAY_TIMEOUT,
                &json!({"message": "webhook: context deadline exceeded"}),
            );
        }
        tokio::time::sleep(self.takes).await;
        answer(
            StatusCode::CREATED,
            &json!({"metadata": {"uid": "u", "resourceVersion": "1"}}),
        )
    }

    fn lease(&self, method: &Method, mut body: Value) -> Response<Body> {
        let mut stored = self.lease.lock();
        if *method == Method::GET {
            let missing = || answer(StatusCode::NOT_FOUND, &json!({"message": "no lease"}));
            return stored
                .1
                .as_ref()
                .map_or_else(missing, |lease| answer(StatusCode::OK, lease));
        }
        let one_less = |left: u32| left.checked_sub(1);
        if self
            .refused_leases
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
        {
            return answer(
                StatusCode::SERVICE_UNAVAILABLE,
                &json!({"message": "starting"}),
            );
        }
        stored.0 += 1;
        body["metadata"]["resourceVersion"] = json!(stored.0.to_string());
        self.lengths
            .lock()
            .extend(body["spec"]["leaseDurationSeconds"].as_u64());
        stored.1 = Some(body.clone());
        answer(StatusCode::OK, &body)
    }
}
