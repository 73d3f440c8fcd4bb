//! Health and metrics over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_http::{Limits, Protocol, Server, TextBody, text};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::metrics::Metrics;

const TEXT: &str = "text/plain";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Enough for the connections of a kubelet and a few scrapers.
const LIMITS: (usize, usize) = (32, 16);

/// Answers `/healthz`, `/readyz` and `/metrics` until it is dropped.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    let limits = Limits {
        connections: LIMITS.0,
        connections_per_peer: LIMITS.1,
        ..Limits::default()
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(request.uri().path(), &metrics);
        async move { Ok::<_, Infallible>(response) }
    });
    Server::new("probes and metrics", Protocol::Http1, None, limits)
        .serve(listener, service, std::future::pending())
        .await;
}

fn respond(path: &str, metrics: &Metrics) -> Response<TextBody> {
    match path {
        "/healthz" => text(StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" if metrics.watching.load(Ordering::Relaxed) => {
            text(StatusCode::OK, TEXT, "ok\n".to_owned())
        }
        "/readyz" => text(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            "the NodeImage is not watched yet\n".to_owned(),
        ),
        "/metrics" => text(StatusCode::OK, OPENMETRICS, metrics.text()),
        _ => text(
            StatusCode::NOT_FOUND,
            TEXT,
            "there are /healthz, /readyz and /metrics\n".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests;
