//! The accept loop, and the life of a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tracing::{debug, warn};

use crate::connections::{Caller, Connections, OpenRequest, Requests, Slot, State};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a short answer.
pub type TextBody = Full<Bytes>;

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, for gRPC.
    Http2,
}

/// Numbers, sizes and times that limit connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most connections at once.
    pub connections: usize,
    /// The most connections from one address.
    pub connections_per_peer: usize,
    /// The longest TLS handshake.
    pub handshake: Duration,
    /// The longest time until the first request begins.
    pub first_request: Duration,
    /// The longest time between two requests on a connection.
    pub idle: Duration,
    /// The longest time with open requests while no request begins or ends.
    pub request: Duration,
    /// The most simultaneous requests on a connection of HTTP/2.
    pub streams: u32,
    /// The read buffer of a connection of HTTP/1 in bytes, which is also the most of a request's
    /// head. For HTTP/2 the window of a stream.
    pub buffer: usize,
    /// The longest time for connections to end after the server ends.
    pub end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_peer: 64,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(10),
            // Longer than the apiserver keeps idle connections to webhooks (90 s).
            idle: Duration::from_secs(120),
            request: Duration::from_secs(60),
            streams: 8,
            buffer: 16 << 10,
            end: Duration::from_secs(10),
        }
    }
}

/// A service for requests. Implemented for every service that fits.
pub trait Answers<B>:
    Service<
        Request<Incoming>,
        Response = Response<B>,
        Future: Send + 'static,
        Error: Into<BoxError>,
    > + Clone
    + Send
    + 'static
{
}

impl<S, B> Answers<B> for S where
    S: Service<
            Request<Incoming>,
            Response = Response<B>,
            Future: Send + 'static,
            Error: Into<BoxError>,
        > + Clone
        + Send
        + 'static
{
}

/// The body of an answer. Implemented for every body that a separate task can send.
pub trait AnswerBody: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static {}

impl<B> AnswerBody for B where B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static {}

/// The interval of pings on a connection of HTTP/2, and the longest time for an answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
/// The pause after an error of accept, which usually means that the process has too many open
/// files.
const PAUSE: Duration = Duration::from_millis(100);
/// The smallest buffer that hyper accepts.
const SMALLEST_BUFFER: usize = 8 << 10;

/// A server for one port.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    protocol: Protocol,
    tls: Option<Arc<ServerConfig>>,
    limits: Limits,
    connections: Arc<Connections>,
}

impl Server {
    /// Creates a server; `name` is its name in the log. With `tls` the configuration must offer the
    /// protocol by ALPN.
    pub fn new(
        name: &'static str,
        protocol: Protocol,
        tls: Option<Arc<ServerConfig>>,
        limits: Limits,
    ) -> Self {
        let connections = Connections::new(limits.connections, limits.connections_per_peer);
        Self {
            name,
            protocol,
            tls,
            limits,
            connections,
        }
    }

    /// The connections of the server.
    pub fn connections(&self) -> Arc<Connections> {
        self.connections.clone()
    }

    /// Serves until `end`, and then until the open requests are answered or [`Limits::end`] has
    /// passed. The extensions of every request have a [`Caller`].
    pub async fn serve<S, B>(self, listener: TcpListener, service: S, end: impl Future<Output = ()>)
    where
        S: Answers<B>,
        B: AnswerBody,
    {
        let server = Arc::new(self);
        let name = server.name;
        let (ended, ending) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tokio::pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => break,
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(server = name, %error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(slot) = server.connections.admit(peer.ip().to_canonical()) else {
                debug!(server = name, %peer, "a connection is refused: there are too many");
                continue;
            };
            let state = slot.state.clone();
            let (server, service, ending) = (server.clone(), service.clone(), ending.clone());
            tasks.spawn(async move {
                let ended = tokio::select! {
                    biased;
                    () = state.dropped.notified() => Err("it gave way to another".into()),
                    ended = server.connection(stream, slot, service, ending) => ended,
                };
                if let Err(error) = ended {
                    debug!(server = server.name, %peer, error, "a connection ended early");
                }
            });
        }
        drop(listener);
        ended.send_replace(true);
        let rest = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(server.limits.end, rest).await.is_err() {
            warn!(
                server = name,
                connections = tasks.len(),
                "connections that did not end in time are dropped"
            );
        }
    }

    async fn connection<S, B>(
        &self,
        stream: TcpStream,
        slot: Slot,
        service: S,
        ending: watch::Receiver<bool>,
    ) -> Result<(), BoxError>
    where
        S: Answers<B>,
        B: AnswerBody,
    {
        stream.set_nodelay(true)?;
        let service = Tracked {
            inner: service,
            state: slot.state.clone(),
        };
        let Some(tls) = &self.tls else {
            return self.requests(stream, &slot, service, ending).await;
        };
        let acceptor = TlsAcceptor::from(tls.clone());
        let stream = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream)).await??;
        self.requests(stream, &slot, service, ending).await
    }

    /// Serves the requests of a connection until the connection ends or one of its time limits has
    /// passed.
    async fn requests<I, S, B>(
        &self,
        stream: I,
        slot: &Slot,
        service: Tracked<S>,
        mut ending: watch::Receiver<bool>,
    ) -> Result<(), BoxError>
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        S: Answers<B>,
        B: AnswerBody,
    {
        let builder = self.builder();
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let (state, mut told) = (&slot.state, false);
        loop {
            let deadline = self.deadline(state.requests());
            tokio::select! {
                result = connection.as_mut() => return result,
                () = state.changed.notified() => {}
                () = tokio::time::sleep_until(deadline) => {
                    if self.deadline(state.requests()) <= Instant::now() {
                        return Err("nothing came of it in time".into());
                    }
                }
                _ = ending.wait_for(|ending| *ending), if !told => {
                    told = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn deadline(&self, requests: Requests) -> Instant {
        let patience = match requests {
            Requests {
                open: 0,
                ever: false,
                ..
            } => self.limits.first_request,
            Requests { open: 0, .. } => self.limits.idle,
            _ => self.limits.request,
        };
        requests.since + patience
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_buf_size(self.limits.buffer.max(SMALLEST_BUFFER));
        let window = u32::try_from(self.limits.buffer).unwrap_or(u32::MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .initial_stream_window_size(window)
            .initial_connection_window_size(window.saturating_mul(2))
            .max_send_buf_size(self.limits.buffer)
            .max_header_list_size(window)
            .keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1);
        match self.protocol {
            Protocol::Http1 => builder.http1_only(),
            Protocol::Http2 => builder.http2_only(),
        }
    }
}

/// The service, with its requests counted.
#[derive(Clone)]
struct Tracked<S> {
    inner: S,
    state: Arc<State>,
}

impl<S, B> Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Counted<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request
            .extensions_mut()
            .insert(Caller::new(self.state.clone()));
        let open = self.state.open();
        let answer = self.inner.call(request);
        Box::pin(async move { Ok(answer.await?.map(|inner| Counted { inner, _open: open })) })
    }
}

/// The body of an answer. Its request is open until the body is sent or dropped.
struct Counted<B> {
    inner: B,
    _open: OpenRequest,
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A short answer.
pub fn text(status: StatusCode, content: &'static str, body: String) -> Response<TextBody> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content));
    response
}

#[cfg(test)]
mod tests;
