//! Tables of the pods that repair replaces, and how; `model.rs` tests that limits hold in every
//! order of events.

mod failed;
mod lost;
mod model;

use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Action, Failure, Outcome, Plan, Verb, Write};
use serde_json::{Value, json};

use super::super::names::{HASH, HASH_WITHOUT_IMAGE, REPAIRING};
use super::super::tests::{pod, snapshot};
use super::super::{InjectionCalls, Snapshot, decide, status};
use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A pod without the containers, of this controller (`apps/v1 ReplicaSet`).
fn bare(name: &str, owner: &str) -> Value {
    let mut bare = pod(name, "h2", true);
    bare["metadata"]["annotations"] = json!({});
    bare["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .truncate(1);
    owned(bare, owner)
}

fn owned(mut pod: Value, owner: &str) -> Value {
    if let Some((api_version, kind)) = owner.split_once(' ') {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": "rs", "controller": true});
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    pod
}

/// The SidecarSet with this annotation, these fields and the last written status.
fn asked(scope: &str, fields: Value, status: &Value, pods: &[Value]) -> Snapshot {
    let mut fields = fields;
    fields["/metadata/annotations"] = json!({HASH: "h2", HASH_WITHOUT_IMAGE: "w", REPAIR: scope});
    fields["/status"] = status.clone();
    let mut snapshot = snapshot(&fields, pods);
    snapshot.repaired = record(&snapshot).and_then(|record| {
        let is_it = |pod: &&Arc<Pod>| {
            *pod.metadata.name == *record.pod && *pod.metadata.namespace == *record.namespace
        };
        snapshot.pods.iter().find(is_it).cloned()
    });
    snapshot
}

/// The writes of repair: the verb, and the pod.
fn done(plan: &Plan) -> Vec<String> {
    let stages = plan.stages.iter().filter(|stage| stage.name == "repair");
    let actions = stages
        .flat_map(|stage| &stage.steps)
        .flat_map(|step| &step.actions);
    let words = |action: &Action| match action {
        Action::EvictPod { target } => format!("evict {}", target.uid),
        Action::PatchPod { target, patch } => format!("{:?} {}", patch.labels, target.uid),
        other => panic!("{other:?}"),
    };
    actions.map(words).collect()
}

/// A round: the writes, and the status after it.
fn round(snapshot: &Snapshot, outcome: &Outcome) -> (Vec<String>, Value) {
    let plan = decide(snapshot, NOW);
    (done(&plan), json!(status(snapshot, &plan, outcome, NOW)))
}

/// Two rounds from the beginning: the writes of the second.
fn replaced(scope: &str, fields: &Value, pods: &[Value]) -> Vec<String> {
    let (first, status) = round(
        &asked(scope, fields.clone(), &Value::Null, pods),
        &Outcome::default(),
    );
    assert!(
        first.is_empty(),
        "nothing is done before it is noted: {first:?}"
    );
    round(
        &asked(scope, fields.clone(), &status, pods),
        &Outcome::default(),
    )
    .0
}

fn condition(status: &Value) -> (String, String) {
    let all = status["conditions"].as_array().into_iter().flatten();
    let found = all
        .into_iter()
        .find(|known| known["type"] == REPAIRING)
        .cloned()
        .unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

#[test]
fn replacement_depends_on_kind_of_controller() {
    let label = r#"{"apps.kruise.io/specified-delete": Some("true")} a"#;
    for (owner, expected) in [
        ("apps.kruise.io/v1alpha1 CloneSet", Some(label)),
        ("apps.kruise.io/v1beta1 StatefulSet", Some(label)),
        ("apps/v1 ReplicaSet", Some("evict a")),
        ("apps/v1 StatefulSet", Some("evict a")),
        ("apps/v1 DaemonSet", Some("evict a")),
        ("apps.kruise.io/v1alpha1 DaemonSet", Some("evict a")),
        ("v1 ReplicationController", Some("evict a")),
        ("batch/v1 Job", None),
        ("example.com/v1 ReplicaSet", None),
        ("", None),
    ] {
        let pods = [bare("a", owner)];
        assert_eq!(
            replaced("Missed", &json!({}), &pods),
            Vec::from_iter(expected),
            "{owner}"
        );
        let told = decide(&asked("Missed", json!({}), &Value::Null, &pods), NOW).waiting;
        let says = |words: &str| {
            told.iter()
                .any(|waiting| waiting.pod == "default/a" && waiting.reason.contains(words))
        };
        assert!(
            says(if expected.is_some() {
                "in its turn"
            } else {
                "by hand"
            }),
            "{owner}: {told:#?}"
        );
    }
}

#[test]
fn repair_replaces_only_pods_in_its_scope() {
    let missed = || bare("a", "apps/v1 ReplicaSet");
    let mut old = missed();
    old["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut outdated = owned(pod("a", "h1", true), "apps/v1 ReplicaSet");
    outdated["metadata"]["annotations"][HASH_WITHOUT_IMAGE] =
        json!(json!({"log": {"hash": "x"}}).to_string());
    let strategy = |value: Value| json!({"/spec/updateStrategy": value});
    let injection = |value: Value| json!({"/spec/injectionStrategy": value});
    for (what, scope, fields, pod, is_replaced) in [
        ("a missed one", "Missed", json!({}), missed(), true),
        ("repair is off", "None", json!({}), missed(), false),
        ("of all", "All", json!({}), missed(), true),
        ("an older one", "Missed", json!({}), old.clone(), false),
        ("an older one of all", "All", json!({}), old, true),
        (
            "one that is not upgradable",
            "Missed",
            json!({}),
            outdated.clone(),
            false,
        ),
        (
            "one of all that is not upgradable",
            "All",
            json!({}),
            outdated.clone(),
            true,
        ),
        (
            "that is kept back",
            "All",
            strategy(json!({"partition": 1})),
            outdated.clone(),
            false,
        ),
        (
            "that is not selected",
            "All",
            strategy(json!({"selector": {"matchLabels": {"app": "x"}}})),
            outdated.clone(),
            false,
        ),
        (
            "that is not to be updated",
            "All",
            strategy(json!({"type": "NotUpdate"})),
            outdated.clone(),
            false,
        ),
        (
            "whose successor would be pinned",
            "All",
            injection(json!({"revision": {"revisionName": "log-0"}})),
            outdated,
            false,
        ),
        (
            "a missed one that is kept back from updates",
            "Missed",
            strategy(json!({"type": "NotUpdate"})),
            missed(),
            true,
        ),
        (
            "paused",
            "Missed",
            strategy(json!({"paused": true})),
            missed(),
            false,
        ),
        (
            "injection is paused",
            "Missed",
            injection(json!({"paused": true})),
            missed(),
            false,
        ),
        (
            "0 may be away",
            "Missed",
            strategy(json!({"maxUnavailable": 0})),
            missed(),
            false,
        ),
        (
            "a share of those that are selected",
            "Missed",
            strategy(json!({"maxUnavailable": "10%"})),
            missed(),
            true,
        ),
    ] {
        assert_eq!(
            replaced(scope, &fields, &[pod]).len(),
            usize::from(is_replaced),
            "{what}"
        );
    }
    let pods = [missed()];
    let overloaded = Snapshot {
        injection_calls: InjectionCalls::NotYet,
        ..asked("Missed", json!({}), &Value::Null, &pods)
    };
    let (_, status) = round(&overloaded, &Outcome::default());
    assert!(
        status["repair"].is_null() && condition(&status).1.contains("InjectionReady"),
        "{status:#}"
    );
}

#[test]
fn next_pod_is_replaced_when_successor_is_ready() {
    let owner = "apps/v1 ReplicaSet";
    let (a, b) = (bare("a", owner), bare("b", owner));
    let step = |status: &Value, pods: &[Value]| {
        round(
            &asked("Missed", json!({}), status, pods),
            &Outcome::default(),
        )
    };
    let (_, begun) = step(&Value::Null, &[a.clone(), b.clone()]);
    assert_eq!(begun["repair"]["pod"], "a");
    assert_eq!(step(&begun, &[a.clone(), b.clone()]).0, ["evict a"]);
    // The pod ends; then it is gone, then another pod exists, and then that pod is ready.
    let mut ending = a.clone();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-04T00:00:00Z");
    let new = |ready: bool| {
        let mut new = owned(pod("c", "h2", ready), owner);
        new["metadata"]["creationTimestamp"] = json!("2026-01-04T00:00:00Z");
        new
    };
    for (pods, is_missing) in [
        (vec![ending, b.clone()], false),
        (vec![b.clone()], true),
        (vec![new(false), b.clone()], true),
    ] {
        let (done, mut status) = step(&begun, &pods);
        let missing = status["repair"].as_object_mut().unwrap().remove("missing");
        assert_eq!(missing.is_some(), is_missing);
        assert_eq!(
            (done.len(), &status["repair"], condition(&status).0.as_str()),
            (0, &begun["repair"], "Replacing")
        );
    }
    let (_, over) = step(&begun, &[new(true), b.clone()]);
    assert_eq!(over["repair"]["over"], true);
    let (_, next) = step(&over, &[new(true), b.clone()]);
    assert_eq!(next["repair"]["pod"], "b");
    assert_eq!(step(&next, &[new(true), b.clone()]).0, ["evict b"]);
    // The annotation no longer asks for repair: nothing is left of it.
    let (done, off) = round(&asked("None", json!({}), &next, &[b]), &Outcome::default());
    assert!(
        done.is_empty() && off["repair"].is_null() && condition(&off).0.is_empty(),
        "{off:#}"
    );
}

#[test]
fn turn_begins_when_the_successor_will_be_newest() {
    let owner = "apps/v1 ReplicaSet";
    let mut newest = owned(pod("b", "h2", true), owner);
    newest["metadata"]["creationTimestamp"] = json!("2026-01-04T00:00:00Z");
    let snapshot = asked(
        "Missed",
        json!({}),
        &Value::Null,
        &[bare("a", owner), newest],
    );
    let at = |millis| {
        let now = "2026-01-04T00:00:00Z".parse::<Timestamp>().unwrap()
            + SignedDuration::from_millis(millis);
        let plan = decide(&snapshot, now);
        let status = json!(status(&snapshot, &plan, &Outcome::default(), now));
        (
            plan.look_again.map(|wait| wait.as_millis()),
            status["repair"]["pod"].clone(),
            condition(&status).0,
        )
    };
    let waits = |millis: i128| (Some(millis), Value::Null, "Replacing".to_owned());
    assert_eq!(at(100), waits(1900));
    assert_eq!(at(1999), waits(1));
    assert_eq!(at(2000), (None, json!("a"), "Replacing".to_owned()));
    assert_eq!(
        at(-60_000).1,
        json!("a"),
        "a clock that is behind delays no turn"
    );
}

/// A pod without the containers, of the ReplicaSet with this uid.
fn bare_of(name: &str, uid: &str) -> Value {
    let mut bare = bare(name, "apps/v1 ReplicaSet");
    bare["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
    bare
}

/// The pod in a namespace that comes after the one of the others.
fn next_namespace(mut pod: Value) -> Value {
    pod["metadata"]["namespace"] = json!("next");
    pod
}

/// A pod with the containers, of the same ReplicaSet as others are, and younger than they are.
fn successor_of(name: &str, uid: &str, ready: bool) -> Value {
    let mut new = bare_of(name, uid);
    let has = pod(name, "h2", ready);
    new["metadata"]["annotations"] = has["metadata"]["annotations"].clone();
    (new["spec"], new["status"]) = (has["spec"].clone(), has["status"].clone());
    new["metadata"]["creationTimestamp"] = json!("2026-01-04T00:00:00Z");
    new
}

#[test]
fn pod_stays_whose_successor_would_lack_containers() {
    let pods = [bare_of("a", "rs"), bare_of("b", "rs")];
    let begun = round_at(0, &Value::Null, &pods).1;
    let snapshot = Snapshot {
        fruitless: Some("volume x".to_owned()),
        ..asked("Missed", json!({}), &begun, &pods)
    };
    let (done, status) = round(&snapshot, &Outcome::default());
    assert!(
        done.is_empty() && condition(&status).1.contains("volume x"),
        "{status:#}"
    );
    assert_eq!(decide(&snapshot, NOW).look_again, Some(REFUSED));
    assert_eq!(
        round_at(10, &status, &pods).1["repair"]["pod"],
        "b",
        "another one is next"
    );
}

#[test]
fn no_pod_is_replaced_before_the_webhook_answers() {
    let pods = [bare_of("a", "rs")];
    let begun = round_at(0, &Value::Null, &pods).1;
    let ready =
        json!({"type": "InjectionReady", "status": "True", "reason": "Asked", "message": "m"});
    for (what, calls, status) in [
        ("too few dry runs failed", InjectionCalls::Unknown, "True"),
        (
            "dry runs fail",
            InjectionCalls::Unanswered("no answer".to_owned()),
            "False",
        ),
        ("the entry is not written", InjectionCalls::NotYet, "False"),
    ] {
        let mut before = begun.clone();
        before["conditions"] = json!([ready]);
        let snapshot = Snapshot {
            injection_calls: calls,
            ..asked("Missed", json!({}), &before, &pods)
        };
        let (done, now) = round(&snapshot, &Outcome::default());
        let conditions = now["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|known| known["type"] == "InjectionReady")
            .unwrap();
        assert!(
            done.is_empty() && found["status"] == status,
            "{what}: {now:#}"
        );
    }
}

/// A round at this second: the plan, and the status after it.
fn round_at(second: i64, status: &Value, pods: &[Value]) -> (Plan, Value) {
    let (snapshot, now) = (
        asked("Missed", json!({}), status, pods),
        Timestamp::from_second(second).unwrap(),
    );
    let plan = decide(&snapshot, now);
    let status = json!(super::super::status(
        &snapshot,
        &plan,
        &Outcome::default(),
        now
    ));
    (plan, status)
}

#[test]
fn missing_successor_delays_others_for_a_minute() {
    let (a, b, c) = (
        bare_of("a", "rs"),
        bare_of("b", "rs"),
        bare_of("c", "other"),
    );
    let begun = round_at(0, &Value::Null, &[a.clone(), b.clone(), c.clone()]).1;
    assert_eq!(begun["repair"]["pod"], "a");
    let ending = |given: i64, until: &str| {
        let mut ending = a.clone();
        ending["metadata"]["deletionTimestamp"] = json!(until);
        ending["spec"]["terminationGracePeriodSeconds"] = json!(given);
        ending
    };
    let mut failed = a.clone();
    failed["status"]["phase"] = json!("Failed");
    let wait = |plan: &Plan| plan.look_again.map(|wait| wait.as_secs());
    let others = [b, c, pod("d", "h1", true)];
    for (what, gone, ends) in [
        ("it is gone", vec![], 0),
        ("it has failed, and is there", vec![failed], 0),
        (
            "its node is gone, so that it never ends",
            vec![ending(30, "1970-01-01T00:01:40Z")],
            100,
        ),
        (
            "it has a day to end",
            vec![ending(86_400, "1970-01-02T00:00:00Z")],
            600,
        ),
    ] {
        let pods = [gone.as_slice(), &others].concat();
        if ends > 0 {
            let (plan, status) = round_at(ends - 10, &begun, &pods);
            assert_eq!(
                (wait(&plan), &status["repair"]),
                (Some(10), &begun["repair"]),
                "{what}"
            );
        }
        let (plan, waits) = round_at(ends, &begun, &pods);
        assert_eq!((wait(&plan), plan.events.len()), (Some(60), 0), "{what}");
        assert_eq!(
            waits["repair"]["missing"],
            json!(Time(Timestamp::from_second(ends).unwrap())),
            "{what}"
        );
        let (plan, later) = round_at(ends + 59, &waits, &pods);
        assert_eq!(
            (wait(&plan), &later),
            (Some(1), &waits),
            "{what}: nothing is written meanwhile"
        );
        assert!(super::super::tests::updated(&plan).is_empty(), "{what}");
        let (plan, over) = round_at(ends + 60, &waits, &pods);
        assert!(
            plan.events
                .iter()
                .any(|event| event.warning && event.reason == "NoSuccessor"),
            "{what}: {plan:#?}"
        );
        assert_eq!(over["repair"]["over"], true, "{what}");
        let (plan, _) = round_at(ends + 61, &over, &pods);
        assert_eq!(
            super::super::tests::updated(&plan),
            ["d"],
            "{what}: updates go on"
        );
    }
}

#[test]
fn short_lived_pods_do_not_extend_the_deadline() {
    let (a, b) = (bare_of("a", "rs"), bare_of("b", "rs"));
    let begun = round_at(0, &Value::Null, &[a, b.clone()]).1;
    let waits = round_at(0, &begun, std::slice::from_ref(&b)).1;
    let came = round_at(50, &waits, &[b.clone(), successor_of("e", "rs", false)]).1;
    assert_eq!(came["repair"]["missing"], waits["repair"]["missing"]);
    let (plan, lost) = round_at(70, &came, std::slice::from_ref(&b));
    assert!(
        plan.events
            .iter()
            .any(|event| event.reason == "NoSuccessor"),
        "{plan:#?}"
    );
    assert_eq!(lost["repair"]["over"], true);
}

#[test]
fn idle_workload_holds_the_turn_for_five_minutes() {
    let label = json!({"app": "web", SPECIFIED_DELETE: "true"});
    for (what, owner) in [
        ("its successor is never ready", "apps/v1 ReplicaSet"),
        ("it ignores the label", "apps.kruise.io/v1beta1 CloneSet"),
    ] {
        let (a, other) = (bare("a", owner), next_namespace(bare_of("c", "other")));
        let begun = round_at(0, &Value::Null, &[a.clone(), other.clone()]).1;
        let mut asked_to_go = a;
        asked_to_go["metadata"]["labels"] = label.clone();
        let stays = if owner.contains("CloneSet") {
            asked_to_go
        } else {
            successor_of("b", "rs", false)
        };
        let pods = [stays, other];
        let waits = round_at(10, &begun, &pods).1;
        assert_eq!(waits["repair"]["over"], Value::Null, "{what}");
        assert_eq!(
            round_at(309, &waits, &pods).1["repair"]["over"],
            Value::Null,
            "{what}"
        );
        let over = round_at(310, &waits, &pods).1;
        assert_eq!(over["repair"]["over"], true, "{what}: {over:#}");
        assert_eq!(
            round_at(311, &over, &pods).1["repair"]["pod"],
            "c",
            "{what}"
        );
    }
}

#[test]
fn workload_without_successor_loses_no_second_pod() {
    let (a, b, c, d) = (
        bare_of("a", "rs"),
        bare_of("b", "rs"),
        bare_of("c", "other"),
        bare_of("d", "other"),
    );
    let begun = round_at(0, &Value::Null, &[a, b.clone(), c.clone(), d.clone()]).1;
    let waits = round_at(0, &begun, &[b.clone(), c.clone(), d.clone()]).1;
    let lost = round_at(60, &waits, &[b.clone(), c.clone(), d.clone()]).1;
    let kept = |status: &Value| status["repair"]["lost"][0]["pod"].clone();
    assert_eq!(kept(&lost), "a");
    // Pods of the other workload are replaced, one after the other, and then none is.
    let next = round_at(61, &lost, &[b.clone(), c, d.clone()]).1;
    assert_eq!(
        (&next["repair"]["pod"], kept(&next)),
        (&json!("c"), json!("a"))
    );
    let new = [b.clone(), d, successor_of("e", "other", true)];
    let over = round_at(62, &next, &new).1;
    let next = round_at(63, &over, &new).1;
    assert_eq!(
        (&next["repair"]["pod"], kept(&next)),
        (&json!("d"), json!("a"))
    );
    let mut last = successor_of("f", "other", true);
    last["metadata"]["creationTimestamp"] = json!("2026-01-05T00:00:00Z");
    let new = [b.clone(), new[2].clone(), last];
    let over = round_at(64, &next, &new).1;
    let (plan, idle) = round_at(65, &over, &new);
    assert_eq!(
        (condition(&idle).0.as_str(), kept(&idle)),
        ("Idle", json!("a"))
    );
    assert!(
        condition(&idle)
            .1
            .contains("its workload has made no other in place of pod a"),
        "{idle:#}"
    );
    assert!(
        plan.waiting
            .iter()
            .any(|waiting| waiting.pod == "default/b" && waiting.reason.contains("place of pod a"))
    );
    assert_eq!(
        round_at(66, &idle, &new).1,
        idle,
        "nothing is written twice"
    );
    // A pod that does not serve is no successor yet.
    for (ready, expected) in [(false, &idle["repair"]["pod"]), (true, &json!("b"))] {
        let pods = [new.as_slice(), &[successor_of("g", "rs", ready)]].concat();
        let next = round_at(67, &idle, &pods).1;
        assert_eq!(
            (&next["repair"]["pod"], kept(&next).is_null()),
            (expected, ready)
        );
    }
    // If no pod is left to replace, no record is kept.
    let over = round_at(66, &idle, &new[1..]).1;
    assert!(over["repair"].is_null(), "{over:#}");
}

#[test]
fn refused_deletion_delays_no_other_pod() {
    let owner = "apps/v1 ReplicaSet";
    let pods = [bare("a", owner), bare("b", owner)];
    let (_, begun) = round(
        &asked("Missed", json!({}), &Value::Null, &pods),
        &Outcome::default(),
    );
    let failure = |permanent| Failure {
        write: Write::of(Verb::Evict, PODS),
        namespace: "default".to_owned(),
        object: "a".to_owned(),
        message: "Cannot evict pod as it would violate the pod's disruption budget.".to_owned(),
        code: if permanent { 429 } else { 0 },
        permanent,
        outdated: false,
        taken: false,
        infeasible: false,
    };
    let after = |permanent| {
        let outcome = Outcome {
            failures: vec![failure(permanent)],
        };
        round(&asked("Missed", json!({}), &begun, &pods), &outcome).1
    };
    assert_eq!(
        after(false)["repair"],
        begun["repair"],
        "the controller does not know whether the pod is gone"
    );
    let refused = after(true);
    assert!(
        condition(&refused).1.contains("disruption budget"),
        "{refused:#}"
    );
    assert_eq!(
        (&refused["repair"]["over"], &refused["repair"]["refused"]),
        (&json!(true), &json!(true))
    );
    let snapshot = asked("Missed", json!({}), &refused, &pods);
    let at = |seconds| {
        let now = Timestamp::from_second(seconds).unwrap();
        let plan = decide(&snapshot, now);
        (
            plan.look_again.is_some(),
            json!(status(&snapshot, &plan, &Outcome::default(), now))["repair"]["pod"].clone(),
        )
    };
    assert_eq!(at(1), (true, json!("a")), "not at once");
    assert_eq!(at(11).1, json!("b"));
}

#[test]
fn complete_or_unselected_pod_is_not_replaced() {
    let owner = "apps/v1 ReplicaSet";
    let (_, begun) = round(
        &asked("Missed", json!({}), &Value::Null, &[bare("a", owner)]),
        &Outcome::default(),
    );
    // A tenant removes the label, so the selectors no longer match the pod, which still exists.
    let mut snapshot = asked("Missed", json!({}), &begun, &[]);
    snapshot.repaired = Some(Arc::new(serde_json::from_value(bare("a", owner)).unwrap()));
    let (done, status) = round(&snapshot, &Outcome::default());
    assert_eq!((done.len(), &status["repair"]["over"]), (0, &json!(true)));
    // Another pod of the same name does not count.
    let mut other = bare("a", owner);
    other["metadata"]["uid"] = json!("other");
    let (done, status) = round(
        &asked("Missed", json!({}), &begun, &[other]),
        &Outcome::default(),
    );
    assert_eq!(
        (done.len(), &status["repair"]["lost"][0]["stops"]),
        (0, &json!(1)),
        "it is the successor"
    );
}

#[test]
fn canary_pod_is_no_successor_and_is_not_awaited() {
    let owner = "apps/v1 ReplicaSet";
    let mut outdated = owned(pod("a", "h1", true), owner);
    outdated["metadata"]["annotations"][HASH_WITHOUT_IMAGE] =
        json!(json!({"log": {"hash": "x"}}).to_string());
    let with = |status: &Value, pods: &[Value], taken: &[Value]| {
        let taken = taken
            .iter()
            .map(|pod| serde_json::from_value::<Pod>(pod.clone()).unwrap());
        let taken = taken
            .map(|pod| (pod.metadata.uid.clone(), Arc::new(pod)))
            .collect();
        let snapshot = Snapshot {
            taken,
            ..asked("All", json!({}), status, pods)
        };
        (
            round(&snapshot, &Outcome::default()),
            decide(&snapshot, NOW).waiting,
        )
    };
    let pods = std::slice::from_ref(&outdated);
    let ((_, begun), _) = with(&Value::Null, pods, &[]);
    assert_eq!(begun["repair"]["pod"], "a");
    assert_eq!(with(&begun, pods, &[]).0.0, ["evict a"]);
    // The status reports it, and no turn begins; a turn that has begun ends.
    let ((_, status), told) = with(&Value::Null, pods, pods);
    assert!(
        status["repair"].is_null() && condition(&status).1.contains("canary"),
        "{status:#}"
    );
    assert!(
        told.iter()
            .any(|waiting| waiting.pod == "default/a" && waiting.reason.contains("canary")),
        "{told:#?}"
    );
    let ((done, over), _) = with(&begun, pods, pods);
    assert_eq!((done.len(), &over["repair"]["over"]), (0, &json!(true)));
    // The pod is gone, and the pod in its place has the canary's containers.
    let mut new = bare("b", owner);
    new["metadata"]["creationTimestamp"] = json!("2026-01-04T00:00:00Z");
    let ((done, over), _) = with(&begun, &[], std::slice::from_ref(&new));
    assert_eq!((done.len(), &over["repair"]["over"]), (0, &json!(true)));
}

#[test]
fn updates_and_repair_share_max_unavailable() {
    let pods = [bare("a", "apps/v1 ReplicaSet"), pod("b", "h1", true)];
    let snapshot = asked("Missed", json!({}), &Value::Null, &pods);
    let plan = decide(&snapshot, NOW);
    assert_eq!(super::super::tests::updated(&plan), ["b"]);
    let status = json!(status(&snapshot, &plan, &Outcome::default(), NOW));
    assert!(
        status["repair"].is_null() && condition(&status).1.contains("1 of 1"),
        "{status:#}"
    );
    // The opposite order.
    let begun = round(
        &asked(
            "Missed",
            json!({"/spec/updateStrategy": {"type": "NotUpdate"}}),
            &Value::Null,
            &pods,
        ),
        &Outcome::default(),
    )
    .1;
    assert!(
        super::super::tests::updated(&decide(&asked("Missed", json!({}), &begun, &pods), NOW))
            .is_empty()
    );
}

#[test]
fn the_condition_names_a_pod_that_repair_leaves_alone() {
    let pods = [bare("b", "v1 ReplicaSet"), bare("a", "")];
    let (done, status) = round(
        &asked("Missed", json!({}), &Value::Null, &pods),
        &Outcome::default(),
    );
    assert!(done.is_empty(), "{done:?}");
    let left = "pod default/a: no workload makes another in its place, so repair leaves it: replace it by hand; 1 more stay as they are";
    assert_eq!(condition(&status), ("Idle".to_owned(), left.to_owned()));
}
