//! Which answers any client that reaches the port gets, and which only the apiserver gets.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::{Value, json};

use crate::pods::{Budgets, Disruption, Injected, Injector, Labels, Lacks, NotYet, Records};
use crate::secret_path::handler_path;
use crate::server::reviews::admission::{self, Asker, Look};
use crate::server::reviews::evict;
use crate::server::{Judge, Token, route};

/// Has an answer to every question, about all namespaces.
#[derive(Debug)]
struct Knows;

impl Records for Knows {
    fn persistent_pod_state(&self, _: &str, _: (&str, &str, &str)) -> Option<String> {
        Some("of-a-victim".to_owned())
    }

    fn pin(&self, _: &str, _: &mut Value) -> Result<bool, NotYet> {
        Ok(false)
    }
}

impl Injector for Knows {
    fn inject(&self, _: &str, _: Option<&Labels>, _: &Value) -> Result<Injected, Lacks> {
        Ok(Injected::default())
    }

    fn faults(&self, _: &str, _: Option<&str>) -> Vec<String> {
        vec!["spec.selector: SidecarSet of-a-victim selects the same pods".to_owned()]
    }
}

impl Budgets for Knows {
    fn reserve_for(&self, _: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn beside(&self, resource: &str, _: &str) -> Option<String> {
        (resource == "podunavailablebudgets")
            .then(|| "of-a-victim may hold the same pods".to_owned())
    }

    fn known_uid(&self, _: &str, _: &str) -> Option<String> {
        Some("of-the-store".to_owned())
    }

    fn fails_open(&self, _: &Disruption) -> bool {
        false
    }
}

fn judge() -> Judge {
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let knows = Arc::new(Knows);
    let judge = Judge {
        records: Some(knows.clone()),
        injector: Some(knows.clone()),
        budgets: Some(knows),
        ..Judge::asking(client)
    };
    judge.secret_path.learn("key", 1);
    judge
}

#[tokio::test]
async fn guessed_paths_reach_no_webhook() {
    let judge = judge();
    let seed = judge.secret_path.newest().unwrap();
    let below = [
        "/pin",
        "/inject-sidecars",
        "/gate-readiness",
        "/fill-recreate-request",
        "/bind-eviction",
        "/disrupt-pod",
        "/guard-deletion",
    ];
    for path in below {
        let whole = handler_path(path, &seed);
        let guessed = [
            path.to_owned(),
            format!("{path}/"),
            format!("{path}/guess"),
            format!("{whole}/x"),
        ];
        for guessed in guessed.into_iter().chain([
            whole.replacen(path, "/validate", 1),
            format!("{path}/{seed}"),
        ]) {
            assert!(route(&guessed, &judge).is_none(), "{guessed}");
        }
        assert!(
            route(&whole, &judge).is_some_and(|(counted_as, _)| counted_as == path),
            "{path}"
        );
    }
    for open in [
        "/convert".to_owned(),
        "/validate".to_owned(),
        handler_path("/validate", &seed),
    ] {
        assert!(route(&open, &judge).is_some(), "{open}");
    }
    for nowhere in [
        handler_path("", &seed),
        handler_path("/convert", &seed),
        seed,
        String::new(),
        "/".to_owned(),
    ] {
        assert!(route(&nowhere, &judge).is_none(), "{nowhere}");
    }
}

#[tokio::test]
async fn eviction_is_bound_by_the_store_when_late() {
    let judge = judge();
    let review =
        json!({"request": {"uid": "u", "namespace": "a", "object": {"metadata": {"name": "web"}}}});
    for (asked, is_bound) in [
        (Err(NotYet("pods")), true),
        (Ok(Some("x".to_owned())), true),
        (Ok(None), false),
    ] {
        let Look::Asks(question) = evict::look(review.to_string().as_bytes()).unwrap() else {
            panic!("the webhook reads no pod")
        };
        let answer = String::from_utf8(question.answer(asked, &judge).unwrap()).unwrap();
        assert_eq!(answer.contains("\"patch\""), is_bound, "{answer}");
    }
}

#[tokio::test]
async fn token_is_no_other_than_the_one_that_is_set() {
    for (token, shown, expected) in [
        (None, None, true),
        (None, Some("Bearer x"), true),
        (Some("secret"), Some("Bearer secret"), true),
        (Some("secret"), None, false),
        (Some("secret"), Some("secret"), false),
        (Some("secret"), Some("Bearer "), false),
        (Some("secret"), Some("Bearer secret2"), false),
        (Some("secret"), Some("Bearer Secret"), false),
    ] {
        let token = Token::new(token.map(str::to_owned));
        let shown = shown.map(|shown| (http::header::AUTHORIZATION, shown.parse().unwrap()));
        assert_eq!(
            token.is_shown(&shown.clone().into_iter().collect()),
            expected,
            "{shown:?}"
        );
    }
}

#[tokio::test]
async fn only_apiserver_reviews_reveal_other_objects() {
    let judge = judge();
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"});
    let selector = json!({"matchLabels": {"app": "db"}});
    let containers = json!([{"name": "agent", "image": "agent:1"}]);
    for (resource, group, kind, spec) in [
        (
            "persistentpodstates",
            "apps",
            "PersistentPodState",
            json!({"targetRef": target}),
        ),
        (
            "sidecarsets",
            "apps",
            "SidecarSet",
            json!({"selector": selector, "containers": containers}),
        ),
        (
            "podunavailablebudgets",
            "policy",
            "PodUnavailableBudget",
            json!({"selector": selector, "maxUnavailable": 1}),
        ),
    ] {
        let metadata = json!({"name": "own", "namespace": "victim"});
        let version = format!("{group}.kruise.io/v1beta1");
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        let request = json!({"uid": "u", "resource": {"resource": resource}, "namespace": "victim", "object": object});
        let review = json!({"request": request}).to_string();
        let answered = async |asker: Asker| -> Value {
            let answer = match admission::look(review.as_bytes(), &judge, asker).unwrap() {
                Look::Answer(answer) => answer,
                Look::Asks(question) => question.answer(&judge).await.unwrap(),
            };
            serde_json::from_slice::<Value>(&answer).unwrap()["response"].take()
        };
        let told = answered(Asker::Apiserver).await;
        assert!(
            told.to_string().contains("of-a-victim"),
            "{resource}: {told}"
        );
        assert_eq!(
            answered(Asker::Anybody).await,
            json!({"uid": "u", "allowed": true}),
            "{resource}"
        );
    }
}

#[tokio::test]
async fn anonymous_review_causes_no_apiserver_read() {
    let judge = judge();
    let labels = json!({"app": "db"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": pod});
    let metadata = json!({"name": "own", "namespace": "victim"});
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": metadata, "spec": spec});
    let resource = json!({"resource": "clonesets"});
    let review = json!({"request": {"uid": "u", "resource": resource, "namespace": "victim", "object": object}});
    for (asker, is_asked) in [(Asker::Apiserver, true), (Asker::Anybody, false)] {
        let look = admission::look(review.to_string().as_bytes(), &judge, asker).unwrap();
        assert_eq!(matches!(look, Look::Asks(_)), is_asked, "{asker:?}");
    }
}
