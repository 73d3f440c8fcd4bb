//! The HTTPS server: accept, shake hands, route, drain.

pub(crate) mod admission;
pub(crate) mod conversion;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use kube::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::places::{CONVERT_PATH, VALIDATE_PATH};

/// The largest request. A list of thousands of objects comes as one review, so it is far above one object's limit.
const BODY_MAX: usize = 64 << 20;
/// Above this size a request is worked on beside the other tasks, not among them.
const INLINE_MAX: usize = 256 << 10;
/// The most connections at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 256;
/// The most memory for bodies at once, in MiB.
const BODIES_MIB: u32 = 96;
/// The longest wait for a handshake, for a request's head, and for its body each.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest that connections may take to end, once they are told to.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How far the shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serve.
    Serving,
    /// Serve, but ask clients to come back over a new connection, which then leads to another replica.
    Draining,
    /// Accept no more, finish what is under way.
    Ending,
}

struct Shared {
    phase: watch::Receiver<Phase>,
    memory: Semaphore,
    judge: Judge,
}

/// What the validation of an object needs besides the object.
pub struct Judge {
    /// To ask the apiserver about pod templates.
    pub client: Client,
    /// Resources that are not taken in, with the reason.
    pub closed: BTreeMap<&'static str, String>,
}

/// What a path leads to.
#[derive(Clone, Copy)]
enum Handler {
    Convert,
    Validate,
}

/// Serves until the phase says to end and the connections have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    judge: Judge,
    mut phase: watch::Receiver<Phase>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let shared = Arc::new(Shared { phase: phase.clone(), memory: Semaphore::new(BODIES_MIB as usize), judge });
    let graceful = GracefulShutdown::new();
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&connections).acquire_owned() => slot,
            _ = phase.wait_for(|phase| *phase == Phase::Ending) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase == Phase::Ending) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (acceptor, shared, watcher) = (acceptor.clone(), Arc::clone(&shared), graceful.watcher());
                tokio::spawn(async move {
                    let _slot = slot;
                    if let Err(error) = connection(stream, acceptor, shared, watcher).await {
                        debug!(%peer, %error, "a connection ended early");
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, for one: wait until others are free again.
                warn!(%error, "cannot accept connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await.is_err() {
        warn!(seconds = DRAIN_MAX.as_secs(), "some connections did not end in time");
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    shared: Arc<Shared>,
    watcher: hyper_util::server::graceful::Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await??;
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(respond(request, &shared).await) }
    });
    // The time limit on a request's head counts from the end of the one before it too: it ends idle connections only
    // when it is set shorter than the apiserver's own patience with them (90 s).
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(120))
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection).await?;
    Ok(())
}

/// A refusal before any review could be read.
struct Refusal(StatusCode, String);

async fn respond(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let (status, body, json) = match answer(request, shared).await {
        Ok(body) => (StatusCode::OK, body, true),
        Err(Refusal(status, message)) => (status, message.into_bytes(), false),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content = if json { "application/json" } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
    if *shared.phase.borrow() != Phase::Serving {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Result<Vec<u8>, Refusal> {
    let handler = match request.uri().path() {
        CONVERT_PATH => Handler::Convert,
        VALIDATE_PATH => Handler::Validate,
        path => return Err(Refusal(StatusCode::NOT_FOUND, format!("nothing is served at {path}"))),
    };
    if request.method() != Method::POST {
        return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "reviews are POSTed".to_owned()));
    }
    let announced = hyper::body::Body::size_hint(request.body()).upper();
    let expected = announced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(BODY_MAX);
    if expected > BODY_MAX && announced.is_some() {
        return Err(too_large());
    }
    let mebibytes = u32::try_from(expected.min(BODY_MAX) >> 20).unwrap_or(BODIES_MIB).saturating_add(1);
    let _memory = shared.memory.acquire_many(mebibytes.min(BODIES_MIB)).await;
    let collected = tokio::time::timeout(PATIENCE, Limited::new(request.into_body(), BODY_MAX).collect()).await;
    let body = match collected {
        Err(_) => {
            return Err(Refusal(StatusCode::REQUEST_TIMEOUT, "the request's body did not come in time".to_owned()));
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok(Err(error)) => {
            return Err(Refusal(StatusCode::BAD_REQUEST, format!("the request's body cannot be read: {error}")));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    let answered = match handler {
        Handler::Validate => admission::review(&body, &shared.judge).await,
        Handler::Convert if body.len() <= INLINE_MAX => conversion::review(&body),
        Handler::Convert => {
            let aside = tokio::task::spawn_blocking(move || conversion::review(&body)).await;
            aside.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("the review failed: {error}")))?
        }
    };
    answered.map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("the body is no review: {error}")))
}

fn too_large() -> Refusal {
    Refusal(StatusCode::PAYLOAD_TOO_LARGE, format!("the request's body is larger than {BODY_MAX} bytes"))
}

/// Binds the port.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

#[cfg(test)]
mod tests;
