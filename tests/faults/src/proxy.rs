//! The proxy between one life of the controller and the apiserver.
//!
//! A life has a port of its own, so that requests of a dead process do not count for its successor.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::TryStreamExt;
use http::header::{HOST, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, RwLock, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::fault::{Lag, Refusal, Side, TRY_AGAIN};
use crate::lag::{self, Lags, Watch};
use crate::ledger::{Decision, Ledger};
use crate::write::{self, Write};

/// The time for an answer to reach the controller before it is killed.
const DELIVERY: Duration = Duration::from_millis(20);
/// After so much time without a request, the controller does nothing more with its view.
const REST: Duration = Duration::from_millis(300);
/// The maximum duration of a lag.
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

/// The part of a replica that all of its lives share.
pub(crate) struct Proxy {
    upstream: Client,
    /// All replicas'.
    ledger: Arc<Mutex<Ledger>>,
    /// The other replicas'.
    others: OnceLock<Vec<Weak<Proxy>>>,
    /// Notified when the controller has to die, to pause, or to end.
    pub(crate) fatal: Notify,
    /// Sent when the controller resumes after a pause.
    resumed: watch::Sender<()>,
    /// When the controller last learned which replica leads.
    told_who_leads: watch::Sender<Instant>,
    pub(crate) lags: Arc<Lags>,
    /// Held for reading by every write that is under way.
    under_way: Arc<RwLock<()>>,
}

impl Proxy {
    pub(crate) fn new(upstream: Client, ledger: Arc<Mutex<Ledger>>) -> Proxy {
        Proxy {
            upstream,
            ledger,
            others: OnceLock::new(),
            fatal: Notify::new(),
            resumed: watch::channel(()).0,
            told_who_leads: watch::channel(Instant::now()).0,
            lags: Arc::new(Lags::new()),
            under_way: Arc::default(),
        }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Makes the replicas of one controller known to each other.
    pub(crate) fn introduce(all: &[Arc<Proxy>]) {
        for proxy in all {
            let others = all
                .iter()
                .filter(|other| !Arc::ptr_eq(proxy, other))
                .map(Arc::downgrade);
            // They are introduced once.
            let _ = proxy.others.set(others.collect());
        }
    }

    /// Waits until the apiserver has answered every write that it was sent.
    pub(crate) async fn drained(&self) {
        drop(self.under_way.write().await);
    }

    /// Breaks off all requests that were held while the controller was paused, and serves new ones.
    pub(crate) fn resume(&self) {
        self.ledger().goes_on();
        self.resumed.send_replace(());
    }

    /// Waits until the controller reads the lease from now on, or writes it successfully.
    pub(crate) async fn learns_the_leader(&self) {
        let now = Instant::now();
        let _ = self
            .told_who_leads
            .subscribe()
            .wait_for(|told| *told > now)
            .await;
    }

    /// Holds a request until the connection ends: when the controller ends, or when it resumes.
    async fn held(&self) -> Result<Answer, Broken> {
        let _ = self.resumed.subscribe().changed().await;
        Err(Broken)
    }

    /// Serves this life of the controller until dropped.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        life: usize,
    ) -> std::io::Error {
        let mut connections = JoinSet::new();
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => return error,
            };
            let proxy = Arc::clone(self);
            connections.spawn(async move {
                let answer = service_fn(move |request| Arc::clone(&proxy).answer(life, request));
                // It ends with an error whenever the controller dies.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn answer(
        self: Arc<Self>,
        life: usize,
        request: Request<Incoming>,
    ) -> Result<Answer, Broken> {
        let write = Write::of(request.method(), request.uri());
        let watch = Watch::of(request.uri());
        let is_of_lease =
            write::resource(request.uri()).is_some_and(|resource| resource == "leases");
        if !is_of_lease {
            self.ledger().requested(Instant::now());
        }
        if request.method() == Method::GET && lag::asks_for_the_past(request.uri()) {
            self.ledger().asked_for_the_past(request.uri().to_string());
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        let content = serde_json::from_slice(&body).unwrap_or_default();
        let request = forwarded(parts, body);
        match (watch, write) {
            (Some(watch), _) => self.watched(watch, request).await,
            (None, Some(write)) => self.written((life, write), content, request).await,
            (None, None) => {
                let response = self.upstream.send(request).await.map_err(|_| Broken)?;
                if is_of_lease && response.status().is_success() {
                    self.told_who_leads.send_replace(Instant::now());
                }
                Ok(passed_back(response))
            }
        }
    }

    async fn watched(
        self: &Arc<Self>,
        mut watch: Watch,
        mut request: Request<Body>,
    ) -> Result<Answer, Broken> {
        match self.lags.answer(&watch, request.uri()).await {
            lag::Answer::Forward => {}
            lag::Answer::Instead(uri) => {
                *request.uri_mut() = uri;
                watch.tells_again = true;
            }
            lag::Answer::Expired => return Ok(refusal(StatusCode::GONE, "Expired")),
        }
        let (mut parts, body) = self
            .upstream
            .send(request)
            .await
            .map_err(|_| Broken)?
            .into_parts();
        if !parts.status.is_success() {
            return Ok(passed_back(Response::from_parts(parts, body)));
        }
        parts.headers.remove(TRANSFER_ENCODING);
        let (proxy, resource) = (Arc::clone(self), watch.resource.clone());
        let arrives = move || {
            let triggered = proxy.ledger().event(&resource);
            if let Some((lag, resource)) = triggered {
                proxy.fall_behind(lag, resource);
            }
        };
        let events = Arc::clone(&self.lags)
            .events((watch, arrives), body)
            .map_ok(Frame::data);
        Ok(Response::from_parts(
            parts,
            StreamBody::new(events).boxed_unsync(),
        ))
    }

    async fn written(
        self: Arc<Self>,
        (life, write): (usize, Write),
        content: Value,
        request: Request<Body>,
    ) -> Result<Answer, Broken> {
        // Locked before the write is admitted, so that `drained` misses no admitted write.
        let under_way = Arc::clone(&self.under_way).read_owned().await;
        // The lease is written all the time, also by a controller that has nothing more to do.
        let is_of_lease = write.resource == "leases";
        let decision = self.ledger().admit(life, write, content);
        let index = match decision {
            Decision::Hold => return self.held().await,
            Decision::Fatal(_, Side::Before) => {
                self.fatal.notify_one();
                return self.held().await;
            }
            Decision::Beside => None,
            Decision::Refuse(_, refusal) if !refusal.is_done() => return answer_to(refusal),
            Decision::LagThenPass(index, lag, resource) => {
                self.fall_behind(lag, resource);
                Some(index)
            }
            Decision::LastBeforeTheEnd(index, resource) => {
                let others = self
                    .others
                    .get()
                    .into_iter()
                    .flatten()
                    .filter_map(Weak::upgrade);
                others.for_each(|other| other.fall_behind(Lag::Late, resource));
                Some(index)
            }
            Decision::Pass(index) | Decision::Fatal(index, _) | Decision::Refuse(index, _) => {
                Some(index)
            }
        };
        let proxy = Arc::clone(&self);
        // In a task of its own, so that the write is carried out and entered even if the controller
        // dies meanwhile.
        let carried_out = tokio::spawn(async move {
            let response = proxy
                .carry_out_and_enter(request, (index, is_of_lease))
                .await;
            drop(under_way);
            response
        });
        let response = carried_out.await.map_err(|_| Broken)?.map_err(|_| Broken)?;
        match decision {
            Decision::Fatal(_, Side::After) => {
                self.fatal.notify_one();
                self.held().await
            }
            Decision::Fatal(_, Side::Answered) | Decision::LastBeforeTheEnd(..) => {
                tokio::spawn(async move {
                    sleep(DELIVERY).await;
                    self.fatal.notify_one();
                });
                Ok(response)
            }
            Decision::Refuse(_, refusal) => answer_to(refusal),
            _ => Ok(response),
        }
    }

    /// Makes the controller's view of a resource fall behind, until it has nothing more to do.
    pub(crate) fn fall_behind(self: &Arc<Self>, lag: Lag, resource: &'static str) {
        self.lags.begin(lag, resource);
        let proxy = Arc::clone(self);
        tokio::spawn(async move {
            let began = Instant::now();
            let rests = || proxy.ledger().rests_for(REST);
            while began.elapsed() < LONGEST && !(began.elapsed() >= REST && rests()) {
                sleep(REST / 10).await;
            }
            proxy.lags.end();
        });
    }

    /// The apiserver's whole answer to a write, which is entered at its index if the write belongs
    /// to the run.
    async fn carry_out_and_enter(
        &self,
        request: Request<Body>,
        (index, is_of_lease): (Option<usize>, bool),
    ) -> kube::Result<Answer> {
        if !is_of_lease {
            self.ledger().sent();
        }
        let response = self.carry_out(request).await;
        let mut ledger = self.ledger();
        if let (Some(index), Ok(response)) = (index, &response) {
            ledger.answered(index, response.status().as_u16());
        }
        if !is_of_lease {
            ledger.ended(Instant::now());
        }
        response
    }

    /// The apiserver's whole answer.
    async fn carry_out(&self, request: Request<Body>) -> kube::Result<Answer> {
        let (parts, body) = self.upstream.send(request).await?.into_parts();
        Ok(passed_back(Response::from_parts(
            parts,
            Body::from(body.collect_bytes().await?),
        )))
    }
}

fn forwarded(mut parts: http::request::Parts, body: Bytes) -> Request<Body> {
    // The client sets the headers that belong to the connection.
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
        answer
            .headers_mut()
            .insert(RETRY_AFTER, TRY_AGAIN.as_secs().into());
    }
    Ok(answer)
}

/// An answer in the form of the apiserver's refusals.
fn refusal(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("refused by the proxy: {reason}"), "reason": reason, "code": code.as_u16(),
    });
    let mut response = passed_back(Response::new(Body::from(status.to_string().into_bytes())));
    *response.status_mut() = code;
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
