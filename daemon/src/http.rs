//! Health and metrics over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tracing::debug;

use crate::metrics::Metrics;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `/healthz`, `/readyz` and `/metrics` until it is dropped.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                // As a rule there are no more files to open: let others finish.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let response = respond(request.uri().path(), &metrics);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer);
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended early");
            }
        });
    }
}

fn respond(path: &str, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if metrics.watching.load(Ordering::Relaxed) => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "the NodeImage is not watched yet\n".to_owned()),
        "/metrics" => (StatusCode::OK, OPENMETRICS, metrics.text()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_the_node_image_is_watched() {
        let metrics = Metrics::default();
        assert_eq!(respond("/healthz", &metrics).status(), StatusCode::OK);
        assert_eq!(respond("/readyz", &metrics).status(), StatusCode::SERVICE_UNAVAILABLE);
        metrics.watching.store(true, Ordering::Relaxed);
        assert_eq!(respond("/readyz", &metrics).status(), StatusCode::OK);
        assert_eq!(respond("/", &metrics).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn metrics_are_named() {
        let metrics = Metrics::default();
        metrics.pulled("failed");
        metrics.runtime_ready.set(1);
        let text = metrics.text();
        assert!(text.contains(r#"berth_daemon_image_pulls_total{result="failed"} 1"#), "{text}");
        assert!(text.contains("berth_daemon_runtime_ready 1"), "{text}");
    }
}
