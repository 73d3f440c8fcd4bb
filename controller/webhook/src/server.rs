//! The webhooks behind [`berth_http`]: routes, the memory for reviews, the drain.

mod judge;
mod kept;
pub(crate) mod latency;
pub(crate) mod reviews;
pub(crate) mod threads;
mod token;
mod turns;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_http::{
    Answer, Begun, BodyError, Caller, Limits, Protocol, Received, SMALL, Share, Working,
};
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::deletions::GUARD_PATH;
use crate::places::{CONVERT_PATH, VALIDATE_PATH};
use crate::pods::{DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH, RECREATE_PATH};
use crate::secret_path::SecretPath;
pub use judge::Judge;
pub(crate) use judge::Phase;
use kept::Kept;
use reviews::admission::{Asker, Look};
use reviews::pod_review::Head;
use reviews::refusal::{Refusal, unanswered, unread};
use reviews::review_kinds::{Handler, Kind, Kinds, LARGEST};
use reviews::{Asking, Question, inject};
pub use token::NO_TOKEN;
pub(crate) use token::Token;
use turns::WAIT;

/// The time for a request, until its answer is sent to the last byte; the apiserver waits no longer
/// than that for any of them.
const REQUEST: Duration = Duration::from_secs(30);
/// The most connections in all, and from one address. The apiserver opens one for each review that
/// overlaps others.
const CONNECTIONS: (usize, usize) = (320, 256);
/// The most addresses that are remembered as an apiserver's.
const APISERVERS: usize = 64;

struct Shared {
    phase: watch::Receiver<Phase>,
    kinds: Arc<Kinds>,
    /// Addresses from which reviews came by a path that only the apiserver knows.
    apiservers: Mutex<BTreeSet<IpAddr>>,
    asking: Asking,
    judge: Judge,
    kept: Kept,
}

/// The webhooks' port.
pub(crate) struct Server {
    http: berth_http::Server,
    kinds: Arc<Kinds>,
}

impl Server {
    /// `tls` offers HTTP/1.1.
    pub(crate) fn new(tls: Arc<rustls::ServerConfig>) -> Self {
        // A caller may open a connection and then use another one that is free by then. Only the
        // caller may close the first one: a server that closes it may do so while a first request
        // is on its way, and the apiserver does not retry that request.
        let limits = Limits::default();
        let (connections, connections_per_peer) = CONNECTIONS;
        let first_request = limits.idle;
        let limits = Limits {
            connections,
            connections_per_peer,
            buffer: SMALL,
            first_request,
            request: REQUEST,
            ..limits
        };
        let http = berth_http::Server::new("webhooks", Protocol::Http1, Some(tls), limits);
        Self {
            http,
            kinds: Arc::new(Kinds::new()),
        }
    }

    /// The open connections, and the memory that their bodies are charged to.
    #[cfg(test)]
    pub(crate) fn counters(&self) -> (Arc<berth_http::Connections>, Arc<Kinds>) {
        (self.http.connections(), self.kinds.clone())
    }

    /// Serves until the phase says to end and the connections have ended.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        judge: Judge,
        mut phase: watch::Receiver<Phase>,
    ) {
        let secret_path = judge.secret_path.clone();
        let shared = Arc::new(Shared {
            phase: phase.clone(),
            kinds: self.kinds,
            apiservers: Mutex::default(),
            asking: Asking::default(),
            judge,
            kept: Kept::default(),
        });
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(respond(request, shared).await) }
        });
        let end = async move {
            let _ = phase.wait_for(|phase| *phase == Phase::Ending).await;
        };
        let connections = self.http.connections();
        let refusals = async {
            loop {
                connections.refusal().await;
                secret_path.refused();
            }
        };
        tokio::select! {
            () = self.http.serve(listener, service, end) => {}
            () = refusals => {}
        }
    }
}

/// A review by a secret path. The apiserver reports the path to the author of a request if its
/// review is refused, or given up before there is an answer.
struct MayBeRevealed<'a>(Option<&'a SecretPath>);

impl Drop for MayBeRevealed<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            path.refused();
        }
    }
}

async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Answer> {
    let draining = *shared.phase.borrow() != Phase::Serving;
    let caller = request.extensions().get::<Caller>();
    let stays = caller.is_none_or(|caller| shared.kept.keeps(caller, request.uri().path()));
    let (status, body, share, content) = match counted(request, &shared).await {
        Ok((body, share)) => (StatusCode::OK, body, share, "application/json"),
        Err(Refusal(status, message)) => (
            status,
            message.into_bytes(),
            Share::default(),
            "text/plain; charset=utf-8",
        ),
    };
    let mut response = Response::new(Answer::new(body, share));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content));
    if status == StatusCode::TOO_MANY_REQUESTS {
        // A number of seconds makes the apiserver try again.
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if draining || !stays {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn counted(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
) -> Result<(Vec<u8>, Share), Refusal> {
    let Some((path, handler)) = route(request.uri().path(), &shared.judge) else {
        return Err(Refusal(
            StatusCode::NOT_FOUND,
            format!("try {CONVERT_PATH} or {VALIDATE_PATH}"),
        ));
    };
    let is_secret = handler.is_secret();
    if is_secret && shared.judge.token.is_shown(request.headers()) {
        shared.judge.token.shown(Instant::now());
    } else if is_secret {
        if shared.judge.token.refused(Instant::now()) {
            tracing::warn!("{path}: {NO_TOKEN}");
        }
        return Err(Refusal(
            StatusCode::UNAUTHORIZED,
            "by this path the apiserver asks, which shows a token".to_owned(),
        ));
    }
    let review = shared.judge.reviews.begin(path);
    let mut revealed = MayBeRevealed(is_secret.then(|| &shared.judge.secret_path));
    let answered = answer(request, handler, shared).await;
    if answered.is_ok() {
        revealed.0 = None;
    }
    review.answered(
        answered
            .as_ref()
            .map_or_else(|refusal| refusal.0, |_| StatusCode::OK),
    );
    answered
}

/// The handler of a path, and the name under which its reviews are counted. Any client may get
/// answers that follow from the review alone. If an answer contains data of other objects, or
/// changes one, the path ends with a secret that only the apiserver knows.
fn route(path: &str, judge: &Judge) -> Option<(&'static str, Handler)> {
    match path {
        CONVERT_PATH => return Some((CONVERT_PATH, Handler::Convert)),
        VALIDATE_PATH => return Some((VALIDATE_PATH, Handler::Validate(Asker::Anybody))),
        _ => {}
    }
    let (below, _) = path.rsplit_once('/')?;
    if !judge.secret_path.is_known(path) {
        return None;
    }
    match below {
        VALIDATE_PATH => Some((VALIDATE_PATH, Handler::Validate(Asker::Apiserver))),
        PIN_PATH if judge.records.is_some() => Some((PIN_PATH, Handler::Pin)),
        INJECT_PATH if judge.injector.is_some() => Some((INJECT_PATH, Handler::Inject)),
        GATE_PATH => Some((GATE_PATH, Handler::Gate)),
        RECREATE_PATH => Some((RECREATE_PATH, Handler::Recreate)),
        EVICT_PATH if judge.budgets.is_some() => Some((EVICT_PATH, Handler::Evict)),
        DISRUPT_PATH if judge.budgets.is_some() => Some((DISRUPT_PATH, Handler::Disrupt)),
        GUARD_PATH => Some((GUARD_PATH, Handler::Guard)),
        _ => None,
    }
}

async fn answer(
    request: Request<Incoming>,
    handler: Handler,
    shared: &Arc<Shared>,
) -> Result<(Vec<u8>, Share), Refusal> {
    let caller = poster(&request)?;
    let is_stranger = matches!(handler, Handler::Validate(Asker::Anybody));
    // Strangers can claim any namespace, so they share one turn.
    let turn_of = |namespace: &str| {
        if is_stranger {
            String::new()
        } else {
            namespace.to_owned()
        }
    };
    let began = caller.waits_since(WAIT);
    let kind = shared
        .kinds
        .of(handler, shared.is_apiserver(handler, &caller));
    let begun = kind
        .bodies
        .begin(request.into_body())
        .await
        .map_err(unread)?;
    if kind.bodies.is_too_large(&begun) {
        if !matches!(handler, Handler::Inject) {
            return Err(unread(BodyError::TooLarge(LARGEST)));
        }
        let answer = inject::too_large(&begun.skim(WAIT).await.map_err(unread)?);
        return Ok((answer.map_err(unanswered)?, Share::default()));
    }
    let (look, share, _working) = if begun.is_whole() {
        let working = caller.working();
        (
            reviews::look(handler, begun.bytes(), &shared.judge),
            Share::default(),
            working,
        )
    } else {
        let namespace = turn_of(&Head::of(begun.bytes()).namespace);
        large_look(begun, (handler, kind), &namespace, (&caller, shared)).await?
    };
    match look? {
        Look::Answer(answer) => Ok((answer, share)),
        Look::Asks(question) => {
            // A question that waits for the apiserver or for budgets keeps little of the body,
            // except the text of a pod.
            let share = if matches!(question, Question::Namespace(_)) {
                share
            } else {
                Share::default()
            };
            let namespace = turn_of(question.namespace());
            Ok((
                question
                    .answer(&namespace, (&shared.judge, &shared.asking), began)
                    .await?,
                share,
            ))
        }
    }
}

/// The caller of a request that may be a review.
fn poster(request: &Request<Incoming>) -> Result<Caller, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "reviews are POSTed".to_owned(),
        ));
    }
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| {
        Refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the caller is not known".to_owned(),
        )
    })
}

/// Reads a review above [`SMALL`] and handles it in a turn of its namespace. Until it is read, the
/// server may close the connection to make room for another one.
async fn large_look(
    begun: Begun<Incoming>,
    (handler, kind): (Handler, &Kind),
    namespace: &str,
    (caller, shared): (&Caller, &Arc<Shared>),
) -> Result<(Result<Look<Question>, Refusal>, Share, Working), Refusal> {
    let busy = || {
        Refusal(
            StatusCode::TOO_MANY_REQUESTS,
            "too many large reviews at once: try again".to_owned(),
        )
    };
    let turn = kind.turns.take(namespace).await.ok_or_else(busy)?;
    let Received { bytes, share } = kind.bodies.rest(begun).await.map_err(unread)?;
    let (working, shared) = (caller.working(), shared.clone());
    let aside = tokio::task::spawn_blocking(move || {
        // The task holds the turn and the memory until its end, even if the caller gives up.
        let _turn = turn;
        (reviews::look(handler, &bytes, &shared.judge), share)
    });
    let failed = |error| {
        Refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the review failed: {error}"),
        )
    };
    let (look, share) = aside.await.map_err(failed)?;
    Ok((look, share, working))
}

impl Shared {
    /// Whether a review comes from an address that knows a secret path, by this review or by an
    /// earlier one. A stranger's conversions use other memory than the apiserver's.
    fn is_apiserver(&self, handler: Handler, caller: &Caller) -> bool {
        let mut apiservers = self.apiservers.lock();
        if !handler.is_secret() {
            return apiservers.contains(&caller.peer());
        }
        if apiservers.len() < APISERVERS {
            apiservers.insert(caller.peer());
        }
        true
    }
}

#[cfg(test)]
mod tests;
