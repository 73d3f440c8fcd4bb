//! The connection to the apiserver, and single requests on it.

mod counted;
mod dry_run;
#[cfg(test)]
pub(crate) mod fake;
pub mod metadata;

use std::sync::Arc;
use std::time::Duration;

use berth_api::name::InvalidName;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::core::Status;
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder};

use crate::metrics::Metrics;

pub use dry_run::{DryRun, dry_run};

/// Why a request failed.
#[derive(Debug, Clone, Default, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// HTTP status, 0 without an answer.
    pub code: u16,
    /// The server's CamelCase reason, may be empty.
    pub reason: String,
    /// The server's message, or the failure of the connection.
    pub message: String,
    /// Fields that the server refused, with its message for each; if a cause names no field, its
    /// type.
    pub causes: Vec<(String, String)>,
    /// How long the server asks the client to wait.
    pub retry_after: Option<Duration>,
    /// The server has not seen the request, or has refused it. If false, the request may have been
    /// carried out.
    pub not_done: bool,
}

impl Failed {
    /// A failure on this side, before anything was sent.
    pub fn unsent(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            not_done: true,
            ..Self::default()
        }
    }

    /// Whether the server says that the object does not exist. If it does not serve the path at
    /// all, as for a removed version of a definition, it also answers 404, but the body is no
    /// `Status`.
    pub fn is_not_found(&self) -> bool {
        self.code == 404 && self.reason == "NotFound"
    }
}

impl From<InvalidName> for Failed {
    fn from(error: InvalidName) -> Self {
        Self::unsent(error.to_string())
    }
}

/// How many idle connections are kept. Bursts of writes open more.
const IDLE_CONNECTIONS: usize = 16;
/// Bytes of the read and write buffers of a connection. Few objects of a watch are larger, and a
/// burst of writes opens a connection for each of them.
const BUFFER: usize = 16 * 1024;
/// A vanished server is detected after 30 + 3 · 10 s on an idle connection.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest accepted pause that a server asks for, because one wrong answer must not stop the
/// controller for a year.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Larger answers are bugs or attacks: no object and no page of a list comes near this size.
const LARGEST_ANSWER: usize = 256 << 20;
/// A refusal has one sentence and the invalid fields.
const LARGEST_REFUSAL: usize = 1 << 20;

/// Connects with kube's TLS and authentication, and a transport for controllers: small buffers, few
/// idle connections, TCP keep-alive, no hidden retries, and counted requests.
///
/// # Errors
/// Certificates or credentials of the configuration are unusable.
pub fn connect(mut config: Config, metrics: Arc<Metrics>) -> kube::Result<Client> {
    config.default_retry = false;
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config)?.build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT_TIMEOUT)));
    tcp.set_keepalive(Some(KEEPALIVE.0));
    tcp.set_keepalive_interval(Some(KEEPALIVE.1));
    tcp.set_keepalive_retries(Some(KEEPALIVE.2));
    // Sent but never acknowledged data: the connection is as dead as one with a silent server.
    tcp.set_tcp_user_timeout(Some(KEEPALIVE.0 + KEEPALIVE.1 * KEEPALIVE.2));
    let http = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .http1_max_buf_size(BUFFER)
        .build(config.rustls_https_connector_with_connector(tcp)?);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(tower::layer::layer_fn(move |inner| {
            counted::Counted::new(inner, metrics.clone())
        }))
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// Reads one object, as a slim type or whole.
///
/// # Errors
/// The server's answer, or a failure of the connection; `code` 404 if the object does not exist.
pub async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Failed> {
    get_within(client, path, LARGEST_ANSWER).await
}

/// Reads one object whose answer has at most `most` bytes.
///
/// # Errors
/// As [`get`], or the answer is larger.
pub async fn get_within<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    most: usize,
) -> Result<T, Failed> {
    let request = request(Method::GET, path, "", Vec::new())?;
    decode(&send_within(client, request, Instant::now() + READ_TIMEOUT, most).await?)
}

/// Builds a request; `content` is empty where there is no body.
pub(crate) fn request(
    method: Method,
    path: &str,
    content: &str,
    body: Vec<u8>,
) -> Result<Request<Vec<u8>>, Failed> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, "application/json");
    if !content.is_empty() {
        request = request.header(CONTENT_TYPE, content);
    }
    request
        .body(body)
        .map_err(|error| Failed::unsent(format!("cannot build a request for {path}: {error}")))
}

/// Sends a request and reads the whole answer, until `deadline` at the latest.
pub(crate) async fn send(
    client: &Client,
    request: Request<Vec<u8>>,
    deadline: Instant,
) -> Result<Bytes, Failed> {
    send_within(client, request, deadline, LARGEST_ANSWER).await
}

async fn send_within(
    client: &Client,
    request: Request<Vec<u8>>,
    deadline: Instant,
    most: usize,
) -> Result<Bytes, Failed> {
    let path = format!("{} {}", request.method(), request.uri().path());
    let answer = async {
        let response = open(client, request).await?;
        collect(response.into_body(), most).await
    };
    match tokio::time::timeout_at(deadline, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Failed {
            message: format!("no answer in time to {path}"),
            ..Failed::default()
        }),
    }
}

/// Sends a request and returns once the headers of a successful answer have arrived.
pub(crate) async fn open(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<Response<Body>, Failed> {
    let response = client
        .send(request.map(Body::from))
        .await
        .map_err(transport)?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = collect(body, LARGEST_REFUSAL).await.unwrap_or_default();
    Err(refusal(parts.status.as_u16(), &parts.headers, &body))
}

pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failed> {
    serde_json::from_slice(body).map_err(|error| Failed {
        message: format!("cannot decode the server's answer: {error}"),
        ..Failed::default()
    })
}

async fn collect(body: Body, most: usize) -> Result<Bytes, Failed> {
    let limited = http_body_util::Limited::new(body, most);
    let broken = |error: BoxError| Failed {
        message: format!("the answer broke off: {error}"),
        ..Failed::default()
    };
    Ok(limited.collect().await.map_err(broken)?.to_bytes())
}

/// Parses a server's error answer. Some proxies and load balancers do not send a `Status`.
pub fn refusal(code: u16, headers: &HeaderMap, body: &[u8]) -> Failed {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    let status = serde_json::from_slice::<Status>(body)
        .ok()
        .filter(|status| !status.message.is_empty());
    let mut failed = Failed {
        code,
        retry_after: seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
        // An error of a gateway or of a server with a timeout does not say whether the request was
        // carried out.
        not_done: code < 500,
        ..Failed::default()
    };
    match status {
        Some(status) => {
            failed.message = status.message;
            failed.reason = status.reason;
            for cause in status
                .details
                .map(|details| details.causes)
                .unwrap_or_default()
            {
                let about = if cause.field.is_empty() {
                    cause.reason
                } else {
                    cause.field
                };
                failed.causes.push((about, cause.message));
            }
        }
        None => {
            let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
            failed.message = format!("HTTP {code}: {}", text.trim());
        }
    }
    failed
}

fn transport(error: kube::Error) -> Failed {
    let unsent = match &error {
        kube::Error::Service(error) => error
            .downcast_ref::<legacy::Error>()
            .is_some_and(legacy::Error::is_connect),
        kube::Error::Auth(_) => true,
        _ => false,
    };
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        let text = inner.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        source = inner.source();
    }
    Failed {
        message,
        not_done: unsent,
        ..Failed::default()
    }
}

#[cfg(test)]
mod tests;
