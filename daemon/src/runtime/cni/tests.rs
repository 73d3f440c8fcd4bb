//! The end of a daemon, with an apiserver that returns preset answers.

use std::convert::Infallible;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use hyper::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

type Events = UnboundedReceiver<Result<Frame<Bytes>, Infallible>>;

/// The apiserver's answers: the status code of each read, and the stream of the first watch, if
/// that may begin.
struct Apiserver {
    code: u16,
    events: Mutex<Option<Events>>,
}

impl Apiserver {
    fn answer(&self, request: &Request<Body>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let events = is_watch.then(|| self.events.lock().take()).flatten();
        let (code, body) = match events {
            Some(events) => (200, StreamBody::new(events).boxed_unsync()),
            None if is_watch => (403, Full::from(status(403).to_string()).boxed_unsync()),
            None => (
                self.code,
                Full::from(status(self.code).to_string()).boxed_unsync(),
            ),
        };
        Response::builder().status(code).body(body).unwrap()
    }
}

fn metadata() -> Value {
    let meta = json!({"name": SIGN, "namespace": "kruise-system", "resourceVersion": "1"});
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": meta})
}

fn status(code: u16) -> Value {
    if code == 200 {
        return metadata();
    }
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "", "reason": "", "code": code})
}

fn event(name: &str) -> Result<Frame<Bytes>, Infallible> {
    Ok(Frame::data(
        format!("{}\n", json!({"type": name, "object": metadata()})).into(),
    ))
}

/// A daemon that has begun to watch (unless it may not), and the apiserver's end of that watch.
async fn sign(
    code: u16,
    may_watch: bool,
) -> (Sign, UnboundedSender<Result<Frame<Bytes>, Infallible>>) {
    let (tell, events) = unbounded();
    tell.unbounded_send(event("ADDED")).unwrap();
    let apiserver = Arc::new(Apiserver {
        code,
        events: Mutex::new(may_watch.then_some(events)),
    });
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = apiserver.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let sign = Sign::watch(Client::new(service, "kruise-system"), "kruise-system");
    tokio::time::sleep(Duration::from_millis(1)).await;
    (sign, tell)
}

#[tokio::test(start_paused = true)]
async fn a_sign_that_is_not_there_any_more_has_gone() {
    for may_watch in [true, false] {
        assert!(
            sign(404, may_watch).await.0.is_gone().await,
            "may watch: {may_watch}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_that_stays_has_not_gone_and_no_answer_is_no_proof() {
    for code in [200, 401, 500] {
        assert!(!sign(code, true).await.0.is_gone().await, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_look_a_sign_has_not_gone() {
    for may_watch in [true, false] {
        assert!(
            !sign(403, may_watch).await.0.is_gone().await,
            "may watch: {may_watch}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watch_reports_deletion_when_reads_are_forbidden() {
    for late in [0, 2, 5] {
        let (sign, tell) = sign(403, true).await;
        let gone = tokio::spawn(async move { sign.is_gone().await });
        tokio::time::sleep(Duration::from_secs(late)).await;
        tell.unbounded_send(event("DELETED")).unwrap();
        assert!(gone.await.unwrap(), "after {late} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_that_was_made_anew_has_not_gone() {
    let (sign, tell) = sign(403, true).await;
    for name in ["DELETED", "ADDED"] {
        tell.unbounded_send(event(name)).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!sign.is_gone().await);
}

#[tokio::test(start_paused = true)]
async fn readable_object_is_not_gone_despite_broken_watch() {
    let (sign, tell) = sign(200, true).await;
    tell.unbounded_send(event("DELETED")).unwrap();
    drop(tell);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(sign.taken_away.load(Ordering::Relaxed));
    assert!(!sign.is_gone().await);
}

#[tokio::test(start_paused = true)]
async fn old_plugin_is_restored_only_after_object_is_gone() {
    for (code, comes_back) in [(403, false), (200, false), (404, true)] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("host-local");
        std::fs::write(&place, "before").unwrap();
        // Any file that contains the plugin's mark.
        let ours = directory.path().join("ours");
        std::fs::write(&ours, install::SIGN).unwrap();
        install::install(&ours, directory.path()).unwrap();
        sign(code, true)
            .await
            .0
            .restore_if_gone(directory.path())
            .await;
        assert_eq!(
            std::fs::read(&place).unwrap() == b"before",
            comes_back,
            "{code}"
        );
    }
}
