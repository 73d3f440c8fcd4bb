//! Bodies of requests to the webhooks.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use berth_api::weight::DEFAULT_MAX_BYTES;
use berth_webhook::reviews::{self, Judge};
use kube::client::Body;
use serde_json::Value;

thread_local! {
    static RUNTIME: OnceCell<Option<(tokio::runtime::Runtime, Judge)>> = const { OnceCell::new() };
}

pub(crate) fn review(data: &[u8]) {
    if let Ok(answer) = reviews::conversion(data) {
        let answer = response(&answer);
        let failed = answer["response"]["result"]["status"] == "Failure";
        let said = answer["response"]["result"]["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty());
        assert_eq!(failed, said, "a failure has a reason: {answer}");
    }
    RUNTIME.with(|runtime| {
        let Some((runtime, judge)) = runtime.get_or_init(deaf_apiserver) else {
            return;
        };
        let Ok(answer) = runtime.block_on(reviews::admission(data, judge)) else {
            return;
        };
        let answer = response(&answer);
        // A field that the parser skips may be no JSON; an object may also be a list of its
        // fields' values.
        let review: Value = serde_json::from_slice(data).unwrap_or_default();
        assert!(
            !review["request"].is_object() || answer["response"]["uid"] == review["request"]["uid"]
        );
        let said = answer["response"]["status"]["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty());
        assert_eq!(
            answer["response"]["allowed"] == false,
            said,
            "a refusal has a reason: {answer}"
        );
    });
}

fn response(answer: &[u8]) -> Value {
    let answer = serde_json::from_slice(answer);
    assert!(answer.is_ok(), "the answer is JSON");
    answer.unwrap_or_default()
}

/// An apiserver that never answers: objects that only it can judge are not refused.
fn deaf_apiserver() -> Option<(tokio::runtime::Runtime, Judge)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let inside = runtime.enter();
    let away = tower::service_fn(async |_: http::Request<Body>| {
        Err::<http::Response<Body>, tower::BoxError>("there is no apiserver".into())
    });
    let client = kube::Client::new(away, "default");
    let closed = BTreeMap::from([("imagepulljobs", "closed".to_owned())]);
    drop(inside);
    Some((
        runtime,
        Judge {
            client,
            closed,
            object_max_bytes: DEFAULT_MAX_BYTES,
            records: None,
            budgets: None,
            secret_path: Default::default(),
            token: Default::default(),
            injector: None,
            reviews: Default::default(),
            refused_deletions: Default::default(),
        },
    ))
}
