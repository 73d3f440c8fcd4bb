//! The way from the controller to the apiserver, of one life.
//!
//! A life has a port of its own, so that nothing that a dead process sent is taken for its successor's.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use http::header::{HOST, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, RwLock};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::fault::{Lag, Refusal};
use crate::lag::{self, Lags, Watch};
use crate::ledger::{Ledger, Verdict};
use crate::write::Write;

/// For an answer to reach the controller before it is killed.
const DELIVERY: Duration = Duration::from_millis(20);
/// A controller that has asked for nothing for so long does nothing more with what it sees.
const REST: Duration = Duration::from_millis(300);
/// Nothing lags for longer.
const LONGEST: Duration = Duration::from_secs(3);

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// The connection breaks off.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection breaks off")
    }
}

impl std::error::Error for Broken {}

/// What all lives share.
pub(crate) struct Proxy {
    upstream: Client,
    ledger: Mutex<Ledger>,
    /// Told when the controller has to die.
    pub(crate) fatal: Notify,
    pub(crate) lags: Arc<Lags>,
    /// Held for reading by every write that is under way.
    under_way: Arc<RwLock<()>>,
}

impl Proxy {
    pub(crate) fn new(upstream: Client) -> Proxy {
        let ledger = Mutex::new(Ledger::new());
        Proxy { upstream, ledger, fatal: Notify::new(), lags: Arc::new(Lags::new()), under_way: Arc::default() }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the apiserver has answered every write that it was sent.
    pub(crate) async fn drained(&self) {
        drop(self.under_way.write().await);
    }

    /// Serves the controller until dropped.
    pub(crate) async fn serve(self: &Arc<Self>, listener: TcpListener) -> std::io::Error {
        let mut connections = JoinSet::new();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => return error,
            };
            let proxy = Arc::clone(self);
            connections.spawn(async move {
                let answer = service_fn(move |request| Arc::clone(&proxy).answer(request));
                // It ends with an error whenever the controller dies.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Broken> {
        let write = Write::of(request.method(), request.uri());
        let watch = Watch::of(request.uri());
        self.ledger().requested(Instant::now());
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        let content = serde_json::from_slice(&body).unwrap_or_default();
        let request = forwarded(parts, body);
        match (watch, write) {
            (Some(watch), _) => self.watched(watch, request).await,
            (None, Some(write)) => self.written(write, content, request).await,
            (None, None) => self.upstream.send(request).await.map(passed_back).map_err(|_| Broken),
        }
    }

    async fn watched(&self, watch: Watch, mut request: Request<Body>) -> Result<Answer, Broken> {
        match self.lags.answer(&watch, request.uri()).await {
            lag::Answer::Forward => {}
            lag::Answer::Instead(uri) => *request.uri_mut() = uri,
            lag::Answer::Expired => return Ok(refusal(StatusCode::GONE, "Expired")),
        }
        let (mut parts, body) = self.upstream.send(request).await.map_err(|_| Broken)?.into_parts();
        if !parts.status.is_success() {
            return Ok(passed_back(Response::from_parts(parts, body)));
        }
        parts.headers.remove(TRANSFER_ENCODING);
        let events = Arc::clone(&self.lags).events(watch, body).map_ok(Frame::data);
        Ok(Response::from_parts(parts, StreamBody::new(events).boxed_unsync()))
    }

    async fn written(self: Arc<Self>, write: Write, content: Value, request: Request<Body>) -> Result<Answer, Broken> {
        // Taken before the write is admitted, so that none is admitted and then forgotten.
        let under_way = Arc::clone(&self.under_way).read_owned().await;
        let verdict = self.ledger().admit(write, content);
        let index = match verdict {
            Verdict::Hold => return pending().await,
            Verdict::Kill => {
                self.fatal.notify_one();
                return pending().await;
            }
            Verdict::Beside => None,
            Verdict::Refuse(_, refusal) if !refusal.is_done() => return answer_to(refusal),
            Verdict::LagThenPass(index, lag, resource) => {
                self.fall_behind(lag, resource);
                Some(index)
            }
            Verdict::Pass(index)
            | Verdict::PassThenKill(index)
            | Verdict::AnswerThenKill(index)
            | Verdict::Refuse(index, _) => Some(index),
        };
        let proxy = Arc::clone(&self);
        // On a task of its own: it is carried out and entered even if the controller dies meanwhile.
        let carried_out = tokio::spawn(async move {
            let response = proxy.carry_out(request).await;
            if let (Some(index), Ok(response)) = (index, &response) {
                proxy.ledger().answered(index, response.status().as_u16());
            }
            drop(under_way);
            response
        });
        let response = carried_out.await.map_err(|_| Broken)?.map_err(|_| Broken)?;
        match verdict {
            Verdict::PassThenKill(_) => {
                self.fatal.notify_one();
                pending().await
            }
            Verdict::AnswerThenKill(_) => {
                tokio::spawn(async move {
                    sleep(DELIVERY).await;
                    self.fatal.notify_one();
                });
                Ok(response)
            }
            Verdict::Refuse(_, refusal) => answer_to(refusal),
            _ => Ok(response),
        }
    }

    /// What the controller sees of a resource falls behind, until it has nothing more to do.
    pub(crate) fn fall_behind(self: &Arc<Self>, lag: Lag, resource: &'static str) {
        self.lags.begin(lag, resource);
        let proxy = Arc::clone(self);
        tokio::spawn(async move {
            let began = Instant::now();
            let rests = || proxy.ledger().last_request().is_some_and(|last| last.elapsed() >= REST);
            while began.elapsed() < LONGEST && !(began.elapsed() >= REST && rests()) {
                sleep(REST / 10).await;
            }
            proxy.lags.end();
        });
    }

    /// The apiserver's whole answer.
    async fn carry_out(&self, request: Request<Body>) -> kube::Result<Answer> {
        let (parts, body) = self.upstream.send(request).await?.into_parts();
        Ok(passed_back(Response::from_parts(parts, Body::from(body.collect_bytes().await?))))
    }
}

fn forwarded(mut parts: http::request::Parts, body: Bytes) -> Request<Body> {
    // What belongs to the connection is the client's to say.
    parts.headers.remove(HOST);
    parts.headers.remove(TRANSFER_ENCODING);
    Request::from_parts(parts, Body::from(body))
}

fn passed_back(mut response: Response<Body>) -> Answer {
    response.headers_mut().remove(TRANSFER_ENCODING);
    response.map(BodyExt::boxed_unsync)
}

fn answer_to(refused: Refusal) -> Result<Answer, Broken> {
    let (code, reason) = refused.answer().ok_or(Broken)?;
    let mut answer = refusal(code, reason);
    if code == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Ok(answer)
}

/// As the apiserver refuses.
fn refusal(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("refused by the proxy: {reason}"), "reason": reason, "code": code.as_u16(),
    });
    let mut response = passed_back(Response::new(Body::from(status.to_string().into_bytes())));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
