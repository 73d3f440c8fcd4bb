//! `/healthz`, `/readyz` and `/metrics`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// What the server tells.
pub struct Server {
    /// `Err` with the reason while the process is not ready.
    pub ready: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
}

/// Until a client has sent its request's headers.
const HEADERS: Duration = Duration::from_secs(5);
const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until `stop`. Bind the listener before anything else, so that a port in use is found at once.
pub async fn serve(listener: TcpListener, server: Server, stop: CancellationToken) {
    let server = Arc::new(server);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (server, stop) = (server.clone(), stop.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request.uri().path())) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), answer);
            tokio::select! {
                () = stop.cancelled() => {}
                // A client that hangs up or talks nonsense is its own problem.
                _ = connection => {}
            }
        });
    }
}

impl Server {
    fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        let (status, content, body) = match path {
            "/healthz" | "/livez" => (StatusCode::OK, TEXT, "ok".to_owned()),
            "/readyz" => match (self.ready)() {
                Ok(()) => (StatusCode::OK, TEXT, "ok".to_owned()),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, why),
            },
            "/metrics" => (StatusCode::OK, OPEN_METRICS, self.metrics.encode()),
            _ => (StatusCode::NOT_FOUND, TEXT, "not found: try /healthz, /readyz or /metrics".to_owned()),
        };
        let mut response = Response::new(Full::new(body.into()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content));
        response
    }
}

#[cfg(test)]
mod tests;
