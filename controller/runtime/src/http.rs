//! `/healthz`, `/readyz` and `/metrics`.

use std::convert::Infallible;
use std::sync::Arc;

use berth_http::{Limits, Protocol, TextBody, text};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// The answers of the server.
pub struct Server {
    /// `Err` with the reason while the process is not ready.
    pub ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The metrics at `/metrics`.
    pub metrics: Arc<Metrics>,
}

/// The most connections, and the most of one address: a kubelet and a few scrapers.
const CONNECTIONS: (usize, usize) = (64, 16);
const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until `stop`. Bind the listener before anything else, so that a used port fails early.
pub async fn serve(listener: TcpListener, server: Server, stop: CancellationToken) {
    let server = Arc::new(server);
    let limits = Limits {
        connections: CONNECTIONS.0,
        connections_per_peer: CONNECTIONS.1,
        ..Limits::default()
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let response = server.answer(request.uri().path());
        async move { Ok::<_, Infallible>(response) }
    });
    let http = berth_http::Server::new("probes and metrics", Protocol::Http1, None, limits);
    http.serve(listener, service, stop.cancelled_owned()).await;
}

impl Server {
    fn answer(&self, path: &str) -> Response<TextBody> {
        match path {
            "/healthz" | "/livez" => text(StatusCode::OK, TEXT, "ok".to_owned()),
            "/readyz" => match (self.ready)() {
                Ok(()) => text(StatusCode::OK, TEXT, "ok".to_owned()),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why),
            },
            "/metrics" => text(StatusCode::OK, OPEN_METRICS, self.metrics.encode()),
            _ => text(
                StatusCode::NOT_FOUND,
                TEXT,
                "not found: try /healthz, /readyz or /metrics".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
