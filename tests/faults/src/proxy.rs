//! The way from the controller to the apiserver, of one life.
//!
//! A life has a port of its own, so that nothing that a dead process sent is taken for its successor's.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::net::TcpListener;
use tokio::sync::{Notify, RwLock};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::ledger::{Ledger, Verdict};
use crate::write::Write;

/// What all lives share.
pub(crate) struct Proxy {
    upstream: Client,
    ledger: Mutex<Ledger>,
    /// Told when the controller has to die.
    pub(crate) fatal: Notify,
    /// Held for reading by every write that is under way.
    under_way: Arc<RwLock<()>>,
}

impl Proxy {
    pub(crate) fn new(upstream: Client) -> Proxy {
        let ledger = Mutex::new(Ledger::new());
        Proxy { upstream, ledger, fatal: Notify::new(), under_way: Arc::default() }
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
                let answer = service_fn(move |request| {
                    let proxy = Arc::clone(&proxy);
                    async move { Ok::<_, Infallible>(proxy.answer(request).await) }
                });
                // It ends with an error whenever the controller dies.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let write = Write::of(request.method(), request.uri());
        self.ledger().requested(Instant::now());
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return refusal("the request broke off") };
        let body = body.to_bytes();
        let content = || serde_json::from_slice(&body).unwrap_or_default();
        let write = write.map(|write| (write, content()));
        let request = forwarded(parts, body);
        let Some((write, content)) = write else {
            return match self.upstream.send(request).await {
                Ok(response) => passed_back(response),
                Err(error) => refusal(&error.to_string()),
            };
        };
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
            Verdict::Pass(index) | Verdict::PassThenKill(index) => Some(index),
        };
        let proxy = Arc::clone(&self);
        // On a task of its own: it is carried out and entered even if the controller dies meanwhile.
        let carried_out = tokio::spawn(async move {
            let response = proxy.carry_out(request).await;
            if let Some(index) = index {
                proxy.ledger().answered(index, response.status().as_u16());
            }
            drop(under_way);
            response
        });
        let response = carried_out.await.unwrap_or_else(|error| refusal(&error.to_string()));
        if matches!(verdict, Verdict::PassThenKill(_)) {
            self.fatal.notify_one();
            return pending().await;
        }
        response
    }

    /// The apiserver's whole answer.
    async fn carry_out(&self, request: Request<Body>) -> Response<Body> {
        let whole = async {
            let (parts, body) = self.upstream.send(request).await?.into_parts();
            kube::Result::Ok(passed_back(Response::from_parts(parts, Body::from(body.collect_bytes().await?))))
        };
        whole.await.unwrap_or_else(|error: kube::Error| refusal(&error.to_string()))
    }
}

fn forwarded(mut parts: http::request::Parts, body: Bytes) -> Request<Body> {
    // What belongs to the connection is the client's to say.
    parts.headers.remove(HOST);
    parts.headers.remove(TRANSFER_ENCODING);
    Request::from_parts(parts, Body::from(body))
}

fn passed_back(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().remove(TRANSFER_ENCODING);
    response
}

fn refusal(why: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(why.as_bytes().to_vec()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
