use futures::FutureExt;
use futures::future::BoxFuture;
use kube::{Client, Config};
use std::sync::Arc;

use crate::pods::Budgets;

use super::*;

/// Gives this answer about every pod; no answer if it is `None`.
#[derive(Debug)]
struct Says {
    answer: Option<Result<Option<String>, NotYet>>,
    fails_open: bool,
}

impl Budgets for Says {
    fn reserve_for(&self, _: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>> {
        match self.answer.clone() {
            Some(answer) => std::future::ready(answer).boxed(),
            None => std::future::pending().boxed(),
        }
    }

    fn beside(&self, _: &str, _: &str) -> Option<String> {
        None
    }

    fn known_uid(&self, _: &str, _: &str) -> Option<String> {
        None
    }

    fn fails_open(&self, _: &Disruption) -> bool {
        self.fails_open
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_budget_asks_for_retry_unless_failing_open() {
    let (used_up, unread) = (
        Ok(Some("used up".to_owned())),
        Err(NotYet("budgets of pods")),
    );
    let again = "so the budgets of the pod cannot be checked: try again";
    for (answer, fails_open, expected) in [
        (Some(Ok(None)), false, Some(None)),
        (Some(used_up.clone()), false, Some(Some("used up"))),
        (Some(used_up), true, Some(Some("used up"))),
        (Some(unread.clone()), false, Some(Some(again))),
        (Some(unread), true, None),
        (None, false, Some(Some(again))),
        (None, true, None),
    ] {
        let what = format!("{answer:?} {fails_open}");
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let judge = Judge {
            budgets: Some(Arc::new(Says { answer, fails_open })),
            ..Judge::asking(client)
        };
        let question = Question {
            uid: "u".to_owned(),
            disruption: Box::default(),
        };
        let answered = question.answer(&judge, Instant::now()).await;
        let Some(expected) = expected else {
            assert!(matches!(answered, Err(Unanswered::NotYet(_))), "{what}");
            continue;
        };
        let answer: Value = serde_json::from_slice(&answered.unwrap()).unwrap();
        let response = &answer["response"];
        assert_eq!(
            (&response["uid"], &response["allowed"]),
            (&json!("u"), &json!(expected.is_none())),
            "{what}"
        );
        if let Some(says) = expected {
            assert_eq!(response["status"]["code"], 429, "{what}");
            let cause = &response["status"]["details"]["causes"][0];
            assert_eq!(cause["reason"], "DisruptionBudget", "{what}");
            assert!(
                cause["message"].as_str().unwrap().ends_with(says),
                "{what}: {cause}"
            );
        }
    }
}

fn asked(request: Value) -> Disruption {
    let Look::Asks(question) = look(json!({"request": request}).to_string().as_bytes()).unwrap()
    else {
        panic!("it is answered at once")
    };
    *question.disruption
}

#[test]
fn disruption_is_read_from_deletions_and_evictions() {
    let pod = json!({"metadata": {"name": "web"}});
    let deletion = asked(json!({
        "uid": "u", "namespace": "a", "name": "web", "operation": "DELETE", "oldObject": pod, "userInfo": {"username": "me", "groups": ["oncall"]},
    }));
    let expected = Disruption {
        namespace: "a".to_owned(),
        pod: "web".to_owned(),
        object: Some(Pod::read(&pod.to_string())),
        user: "me".to_owned(),
        groups: vec!["oncall".to_owned()],
        ..Disruption::default()
    };
    assert_eq!(deletion, expected);
    let eviction = |options: Value| {
        asked(json!({
            "uid": "u", "namespace": "a", "name": "web", "subResource": "eviction", "operation": "CREATE",
            "object": {"kind": "Eviction", "deleteOptions": options}, "userInfo": {"username": "me"},
        }))
    };
    for (options, uid, is_dry_run) in [
        (json!(null), None, false),
        (
            json!({"preconditions": {"uid": "x"}}),
            Some("x".to_owned()),
            false,
        ),
        (json!({"dryRun": ["All"]}), None, true),
    ] {
        let found = eviction(options);
        assert!(found.change == Change::Evict && found.object.is_none());
        assert_eq!((found.uid, found.is_dry_run), (uid, is_dry_run));
    }
    for (sub_resource, change) in [("", Change::Update), ("resize", Change::Resize)] {
        let pod = json!({"metadata": {"name": "web"}});
        let found = asked(json!({
            "uid": "u", "namespace": "a", "name": "web", "operation": "UPDATE", "subResource": sub_resource,
            "object": pod, "oldObject": pod, "userInfo": {"username": "me"},
        }));
        assert_eq!(
            (found.change, found.new.is_some(), found.object.is_some()),
            (change, true, true)
        );
    }
    assert!(look(b"{}").is_err());
}

#[test]
fn pod_of_a_collection_is_named_by_the_object() {
    let sound = json!({"metadata": {"name": "web-1", "uid": "u"}});
    let broken = json!({"metadata": {"name": "web-1"}, "spec": 7});
    for (name, object, expected) in [
        (json!(""), sound.clone(), "web-1"),
        (Value::Null, sound.clone(), "web-1"),
        (json!(""), broken.clone(), "web-1"),
        (json!("web-1"), broken, "web-1"),
        (json!("web-1"), json!({}), "web-1"),
        (json!("other"), sound, "web-1"),
    ] {
        let mut request =
            json!({"uid": "u", "namespace": "a", "operation": "DELETE", "oldObject": object});
        if !name.is_null() {
            request["name"] = name;
        }
        assert_eq!(asked(request.clone()).pod, expected, "{request}");
    }
}

#[test]
fn pod_beyond_a_limit_is_no_tree_and_says_why() {
    let bomb = json!({"metadata": {"name": "web"}, "spec": {"tolerations": vec![json!({"key": "a"}); 105_000]}});
    for (operation, object) in [
        ("DELETE", Value::Null),
        ("UPDATE", bomb.clone()),
        ("UPDATE", json!({})),
    ] {
        let found =
            asked(json!({"uid": "u", "operation": operation, "object": object, "oldObject": bomb}));
        let why = found.object.unwrap().unwrap_err();
        assert!(
            why.starts_with("spec: has 210002 JSON values") && found.new.is_none(),
            "{why}"
        );
    }
}
