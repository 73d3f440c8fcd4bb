use serde_json::json;

use berth_workload::objects::resource::PODS;
use berth_workload::plan::Write;

use super::*;
use crate::sidecarset::names::HASH_WITHOUT_IMAGE;
use crate::sidecarset::status::events::blocked_event;
use crate::sidecarset::tests::{NOW, pod, snapshot};

fn blocked(snapshot: &Snapshot) -> Option<(String, String)> {
    let status = crate::sidecarset::status(snapshot, &Default::default(), &Default::default(), NOW);
    let condition = status
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == "Blocked")?;
    Some((condition.reason, condition.message))
}

#[test]
fn unavailable_image_message_quotes_the_kubelet() {
    let mut failing = pod("a", "h2", false);
    failing["spec"]["nodeName"] = json!("n1");
    failing["status"]["containerStatuses"] = json!([{"name": "agent", "state": {"waiting": {
        "reason": "ImagePullBackOff", "message": "agent:2 not found",
    }}}]);
    let (reason, message) = blocked(&snapshot(&json!({}), &[failing])).unwrap();
    assert_eq!(reason, "ImageUnavailable");
    assert!(
            message.contains(
                "default/a on node n1: container agent of SidecarSet log is to run image agent:2, and does not (ImagePullBackOff)"
            ),
            "{message}"
        );
    assert!(message.contains("agent:2 not found"), "{message}");
}

#[test]
fn no_budget_is_reported_only_while_pods_wait() {
    let zero = |pods: &[Value]| snapshot(&json!({"/spec/updateStrategy/maxUnavailable": 0}), pods);
    assert_eq!(
        blocked(&zero(&[pod("a", "h1", true)])).unwrap().0,
        "NoBudget"
    );
    assert_eq!(blocked(&zero(&[pod("a", "h2", true)])), None);
    let paused = json!({"/spec/updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 0, "paused": true}});
    assert_eq!(blocked(&snapshot(&paused, &[pod("a", "h1", true)])), None);
}

#[test]
fn held_update_is_blocked_and_reported_once() {
    let snapshot = snapshot(&json!({}), &[pod("a", "h1", true), pod("b", "h1", true)]);
    let plan = crate::sidecarset::decide(&snapshot, NOW);
    let held = |verb, pod| {
        Failure::of_budget(
            Write::of(verb, PODS),
            ("default", pod),
            "budget web says no".to_owned(),
        )
    };
    let outcome = Outcome {
        failures: vec![held(Verb::Patch, "b"), held(Verb::Patch, "a")],
    };
    let told = |snapshot: &Snapshot, outcome: &Outcome| {
        let status = crate::sidecarset::status(snapshot, &plan, outcome, NOW);
        let event = blocked_event(snapshot, &status).map(|event| event.message);
        let blocked = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Blocked");
        (
            blocked.map(|it| (it.reason.clone(), it.message.clone())),
            event,
            status,
        )
    };
    let (blocked, event, status) = told(&snapshot, &outcome);
    let message =
        "SidecarSet log: the update of pod default/a waits; budget web says no".to_owned();
    assert_eq!(
        (blocked, event),
        (
            Some(("NoBudget".to_owned(), message.clone())),
            Some(message)
        )
    );
    let mut next = snapshot.clone();
    std::sync::Arc::make_mut(&mut next.set).status = Some(status);
    assert_eq!(told(&next, &outcome).1, None, "it was told");
    assert_eq!(
        told(&next, &Outcome::default()).0,
        None,
        "it passes with the budget"
    );
    let evicted = Outcome {
        failures: vec![held(Verb::Evict, "a")],
    };
    assert_eq!(
        told(&snapshot, &evicted).0,
        None,
        "an eviction is of repair"
    );
}

#[test]
fn failing_image_is_reported_before_a_budget() {
    let mut failing = pod("a", "h2", false);
    failing["status"]["containerStatuses"] =
        json!([{"name": "agent", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
    let held = Failure::of_budget(
        Write::of(Verb::Patch, PODS),
        ("default", "b"),
        "no".to_owned(),
    );
    let snapshot = snapshot(&json!({}), &[failing, pod("b", "h1", true)]);
    let status = crate::sidecarset::status(
        &snapshot,
        &Default::default(),
        &Outcome {
            failures: vec![held],
        },
        NOW,
    );
    let blocked = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Blocked")
        .unwrap();
    assert_eq!(blocked.reason, "ImageUnavailable");
}

#[test]
fn message_names_the_field_in_which_pods_differ() {
    let mut other = pod("a", "h1", true);
    other["metadata"]["annotations"][HASH_WITHOUT_IMAGE] =
        json!(json!({"log": {"hash": "x"}}).to_string());
    let mut snapshot = snapshot(&json!({}), &[other]);
    assert!(
        blocked(&snapshot)
            .unwrap()
            .1
            .contains("in more than images"),
        "no revision in the history is the pod's"
    );
    let mut data = snapshot.revisions[0].data.value();
    data["spec"]["containers"][0]["image"] = json!("agent:1");
    data["spec"]["containers"][0]["args"] = json!(["old"]);
    let old = json!({"metadata": {"name": "log-0", "uid": "o"}, "revision": 0, "data": data});
    snapshot
        .revisions
        .insert(0, std::sync::Arc::new(serde_json::from_value(old).unwrap()));
    let (reason, message) = blocked(&snapshot).unwrap();
    assert_eq!(reason, "UpdateImmutableField");
    assert!(
        message.contains(
            "1 pods, default/a among them, differ from the SidecarSet in spec.containers[0].args"
        ),
        "{message}"
    );
}
