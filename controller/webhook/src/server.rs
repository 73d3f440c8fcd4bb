//! The webhooks behind [`berth_http`]: routes, the memory for reviews, the drain.

pub(crate) mod admission;
pub(crate) mod conversion;
mod disrupt;
mod evict;
mod gate;
mod guard;
pub(crate) mod inject;
mod judge;
mod kept;
pub(crate) mod pin;
mod pod_review;
mod recreate;
mod review_kinds;
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
use crate::missing::Missing;
use crate::places::{CONVERT_PATH, VALIDATE_PATH};
use crate::pods::{
    DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, NotYet, PIN_PATH, RECREATE_PATH,
};
use crate::secret_path::SecretPath;
use admission::{Asker, Look};
pub use judge::Judge;
pub(crate) use judge::Phase;
use kept::Kept;
use pod_review::{Head, Unanswered};
use review_kinds::{Handler, Kind, Kinds, LARGEST};
pub use token::NO_TOKEN;
pub(crate) use token::Token;
use turns::{Turns, WAIT};

/// Until a request is answered to its last byte; the apiserver waits for none of them longer than that.
const REQUEST: Duration = Duration::from_secs(30);
/// The most connections, and of one address. The apiserver opens one for each review that overlaps others.
const CONNECTIONS: (usize, usize) = (320, 256);
/// The most addresses that are known to be an apiserver's.
const APISERVERS: usize = 64;

struct Shared {
    phase: watch::Receiver<Phase>,
    kinds: Arc<Kinds>,
    /// Addresses from which reviews came by a path that the apiserver alone is told.
    apiservers: Mutex<BTreeSet<IpAddr>>,
    /// What the apiserver is asked at once about templates, in the controller's name.
    templates: Turns,
    /// What the apiserver is asked at once about namespaces: a pod does not wait for templates.
    namespaces: Turns,
    /// What the apiserver is asked at once about the pods of requests.
    requests: Turns,
    /// What the apiserver is asked at once about the pods of evictions: a flood of requests holds up no drain.
    evictions: Turns,
    /// What budgets are asked at once. Each question is several reads and a write.
    budgets: Turns,
    /// What the apiserver is asked at once about the contents of namespaces and kinds: lists, so few of them are held in memory.
    deletions: Turns,
    /// Pods that reviews named and that do not exist.
    missing: Missing,
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
        // A caller may open a connection and use another that is free by then. The first one is the caller's to close: a server that did
        // may do so while a first request is on its way, and of all requests the apiserver does not try that one again.
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

    /// Who is connected, and what their bodies are charged with.
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
            templates: Turns::new(8),
            namespaces: Turns::new(8),
            requests: Turns::new(8),
            evictions: Turns::new(8),
            budgets: Turns::new(32),
            deletions: Turns::new(2),
            missing: Missing::default(),
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

/// A review by a secret path. The apiserver tells the path to the author of a request whose review is refused, or given up before
/// there is an answer.
struct MayBeTold<'a>(Option<&'a SecretPath>);

impl Drop for MayBeTold<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            path.refused();
        }
    }
}

/// A refusal before any review could be read.
struct Refusal(StatusCode, String);

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
        // Said in seconds, it makes the apiserver try again.
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
    let mut told = MayBeTold(is_secret.then(|| &shared.judge.secret_path));
    let answered = answer(request, handler, shared).await;
    if answered.is_ok() {
        told.0 = None;
    }
    review.answered(
        answered
            .as_ref()
            .map_or_else(|refusal| refusal.0, |_| StatusCode::OK),
    );
    answered
}

/// What a path leads to, and by which name its reviews are counted. Anybody may ask what follows from the review alone; where an answer
/// tells of other objects, or changes one, the path ends with what only the apiserver knows.
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
    if request.method() != Method::POST {
        return Err(Refusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "reviews are POSTed".to_owned(),
        ));
    }
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return Err(Refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the caller is not known".to_owned(),
        ));
    };
    let is_stranger = matches!(handler, Handler::Validate(Asker::Anybody));
    // Strangers say any namespace, and share one turn.
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
            handler.look(begun.bytes(), &shared.judge),
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
            // What waits for the apiserver or for budgets has little of the body, but for a pod's text.
            let share = if matches!(question, Question::Namespace(_)) {
                share
            } else {
                Share::default()
            };
            let namespace = turn_of(question.namespace());
            Ok((question.answer(&namespace, shared, began).await?, share))
        }
    }
}

/// Reads a review above [`SMALL`] and looks at it, in a turn of its namespace. The connection gives way to others until it is read.
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
        // Turn and memory end with the work, also if the caller waits for it no longer.
        let _turn = turn;
        (handler.look(&bytes, &shared.judge), share)
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
    /// Whether a review comes from an address that knows a path which the apiserver alone is told, by this review or by one before. A
    /// stranger's conversions have other memory than the apiserver's.
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

/// What only the apiserver can tell.
enum Question {
    Template(admission::Question),
    Namespace(inject::Question),
    Pod(recreate::Question),
    Eviction(evict::Question),
    Budgets(disrupt::Question),
    Deletion(guard::Question),
}

impl Question {
    /// The namespace whose turn it takes.
    fn namespace(&self) -> &str {
        match self {
            Self::Template(question) => question.namespace(),
            Self::Namespace(question) => question.namespace(),
            Self::Pod(question) => question.namespace(),
            Self::Eviction(question) => question.namespace(),
            Self::Budgets(question) => question.namespace(),
            Self::Deletion(question) => question.namespace(),
        }
    }

    /// The answer to a review whose caller waits since then.
    async fn answer(
        self,
        namespace: &str,
        shared: &Shared,
        began: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Template(question) => {
                let answered = match shared.templates.take(namespace).await {
                    Some(_asking) => question.answer(&shared.judge).await,
                    // Nothing is known, so nothing is refused: the controller asks again.
                    None => question.unasked(),
                };
                answered.map_err(|error| no_review(&error))
            }
            Self::Namespace(question) => {
                let answered = async {
                    let turn = shared.namespaces.take(namespace).await;
                    let _asking = turn.ok_or_else(inject::Question::unasked)?;
                    question.answer(&shared.judge).await
                };
                let answered = tokio::time::timeout(inject::PATIENCE, answered).await;
                answered
                    .unwrap_or_else(|_| Err(inject::Question::unasked()))
                    .map_err(unanswered)
            }
            Self::Budgets(question) => {
                let turn = tokio::time::timeout_at(
                    began + disrupt::PATIENCE,
                    shared.budgets.take(namespace),
                )
                .await;
                let answered = match turn.ok().flatten() {
                    Some(_asking) => question.answer(&shared.judge, began).await,
                    None => question.unasked(&shared.judge),
                };
                answered.map_err(unanswered)
            }
            Self::Eviction(question) => {
                let asked = async {
                    let turn = shared.evictions.take(namespace).await;
                    let _asking = turn.ok_or(NotYet("pods, for it is asked too often"))?;
                    question
                        .pods_uid(&shared.judge.client, &shared.missing)
                        .await
                };
                let asked = tokio::time::timeout(recreate::PATIENCE, asked).await;
                let asked = asked.unwrap_or(Err(NotYet("pods in time")));
                question.answer(asked, &shared.judge).map_err(unanswered)
            }
            Self::Deletion(question) => {
                let counted = async {
                    let _asking = shared
                        .deletions
                        .take(namespace)
                        .await
                        .ok_or(guard::Unlisted::Busy)?;
                    question.count(&shared.judge.client).await
                };
                let counted = tokio::time::timeout(guard::PATIENCE, counted).await;
                let counted = counted.unwrap_or(Err(guard::Unlisted::Late));
                question
                    .answer(counted, &shared.judge)
                    .map_err(|error| no_review(&error))
            }
            Self::Pod(question) => {
                let answered = match shared.requests.take(namespace).await {
                    Some(_asking) => question.answer(&shared.judge, &shared.missing).await,
                    None => question.unasked(),
                };
                answered.map_err(|error| no_review(&error))
            }
        }
    }
}

impl Handler {
    /// Whether only the apiserver knows the path.
    fn is_secret(self) -> bool {
        !matches!(self, Self::Convert | Self::Validate(Asker::Anybody))
    }

    fn look(self, bytes: &[u8], judge: &Judge) -> Result<Look<Question>, Refusal> {
        let answer = match (self, &judge.records, &judge.injector) {
            (Self::Validate(asker), ..) => {
                let look =
                    admission::look(bytes, judge, asker).map_err(|error| no_review(&error))?;
                return Ok(look.map(Question::Template));
            }
            (Self::Recreate, ..) => {
                return Ok(recreate::look(bytes, judge)
                    .map_err(|error| no_review(&error))?
                    .map(Question::Pod));
            }
            (Self::Disrupt, ..) => {
                return Ok(disrupt::look(bytes)
                    .map_err(|error| no_review(&error))?
                    .map(Question::Budgets));
            }
            (Self::Guard, ..) => {
                return Ok(guard::look(bytes)
                    .map_err(|error| no_review(&error))?
                    .map(Question::Deletion));
            }
            (Self::Evict, ..) => {
                return Ok(evict::look(bytes)
                    .map_err(|error| no_review(&error))?
                    .map(Question::Eviction));
            }
            (Self::Inject, _, Some(injector)) => {
                return Ok(inject::look(bytes, &**injector)
                    .map_err(unanswered)?
                    .map(Question::Namespace));
            }
            (Self::Pin, Some(records), _) => pin::review(bytes, &**records),
            (Self::Gate, ..) => {
                gate::review(bytes, judge.injector.as_deref()).map_err(Unanswered::NoReview)
            }
            (Self::Convert | Self::Pin | Self::Inject, ..) => {
                conversion::review(bytes).map_err(Unanswered::NoReview)
            }
        };
        answer.map(Look::Answer).map_err(unanswered)
    }
}

/// Whether a body is read as the review of a pod that is taken out of service.
pub fn reads_disruption(body: &[u8]) -> bool {
    disrupt::look(body).is_ok()
}

/// Whether a body is read as the review of an eviction.
pub fn reads_eviction(body: &[u8]) -> bool {
    evict::look(body).is_ok()
}

fn unread(error: BodyError) -> Refusal {
    Refusal(error.status(), error.to_string())
}

fn unanswered(error: Unanswered) -> Refusal {
    match error {
        Unanswered::NoReview(error) => no_review(&error),
        Unanswered::NotYet(error) => Refusal(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

fn no_review(error: &serde_json::Error) -> Refusal {
    Refusal(
        StatusCode::BAD_REQUEST,
        format!("the body is no review: {error}"),
    )
}

#[cfg(test)]
mod tests;
