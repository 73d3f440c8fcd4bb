//! A status never says done too early, and always says done at the end.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::kind::RolloutKind;
use super::*;

/// An object at generation 2 that its controller has seen.
fn seen(spec: Value, mut status: Value) -> Value {
    status["observedGeneration"] = json!(2);
    json!({
        "metadata": {"name": "web", "generation": 2},
        "spec": spec,
        "status": status,
    })
}

fn rolling(replicas: i64, partition: &Value) -> Value {
    json!({
        "replicas": replicas,
        "updateStrategy": {"rollingUpdate": {"partition": partition}},
    })
}

/// The numbers of a CloneSet or StatefulSet; zero is left out, as the controllers leave it out.
fn pods([existing, updated, available]: [i64; 3]) -> Value {
    let mut status = json!({"replicas": existing, "updatedReplicas": updated});
    if available > 0 {
        status["updatedAvailableReplicas"] = json!(available);
    }
    status
}

fn with_condition(mut object: Value, condition: Value) -> Value {
    object["status"]["conditions"] = json!([condition]);
    object
}

#[track_caller]
fn done(kind: RolloutKind, object: &Value, sentence: &str) {
    assert_eq!(progress(kind, object), Progress::Done(sentence.to_owned()));
}

#[track_caller]
fn waiting(kind: RolloutKind, object: &Value, part: &str) {
    let progress = progress(kind, object);
    let is_so = matches!(&progress, Progress::Waiting(line) if line.contains(part));
    assert!(is_so, "{progress:?} is not waiting with {part:?}");
}

#[track_caller]
fn failed(kind: RolloutKind, object: &Value, part: &str) {
    let progress = progress(kind, object);
    let is_so = matches!(&progress, Progress::Failed(line) if line.contains(part));
    assert!(is_so, "{progress:?} has not failed with {part:?}");
}

const OUT: &str = r#"cloneset "web" successfully rolled out"#;

#[test]
fn rows_of_clonesets() {
    use RolloutKind::CloneSet;
    let zero = json!(0);
    let of = |replicas, numbers| seen(rolling(replicas, &zero), pods(numbers));
    done(CloneSet, &of(6, [6, 6, 6]), OUT);
    done(CloneSet, &of(0, [0, 0, 0]), OUT);
    waiting(CloneSet, &of(6, [6, 0, 0]), "0 of 6 pods are updated...");
    waiting(CloneSet, &of(6, [6, 2, 2]), "2 of 6 pods are updated...");
    waiting(CloneSet, &of(6, [4, 4, 4]), "4 of 6 pods are updated...");
    waiting(CloneSet, &of(6, [8, 6, 6]), "2 pods are to be deleted...");
    waiting(CloneSet, &of(6, [7, 6, 6]), "1 pod is to be deleted...");
    waiting(CloneSet, &of(0, [1, 1, 1]), "1 pod is to be deleted...");
    waiting(
        CloneSet,
        &of(6, [6, 6, 5]),
        "5 of 6 updated pods are available...",
    );
    let none = seen(json!({}), pods([1, 1, 1]));
    done(CloneSet, &none, OUT);
}

#[test]
fn rows_at_a_partition() {
    use RolloutKind::{CloneSet, StatefulSet};
    let at = |replicas, partition, numbers| seen(rolling(replicas, &partition), pods(numbers));
    let is_at = r#"cloneset "web" is at its partition: 2 of 6 pods are updated"#;
    done(CloneSet, &at(6, json!(4), [6, 2, 2]), is_at);
    done(CloneSet, &at(6, json!("60%"), [6, 2, 2]), is_at);
    let none = r#"cloneset "web" is at its partition: 0 of 6 pods are updated"#;
    done(CloneSet, &at(6, json!(6), [6, 0, 0]), none);
    done(CloneSet, &at(6, json!("100%"), [6, 0, 0]), none);
    done(CloneSet, &at(6, json!(9), [6, 0, 0]), none);
    // No pod is outdated.
    done(CloneSet, &at(6, json!(6), [6, 6, 6]), OUT);
    waiting(CloneSet, &at(6, json!(4), [6, 1, 1]), "1 of 2 pods");
    waiting(
        CloneSet,
        &at(6, json!(4), [6, 2, 1]),
        "1 of 2 updated pods are available",
    );
    // Below 100% at least one pod is updated.
    waiting(CloneSet, &at(6, json!("99%"), [6, 0, 0]), "0 of 1 pods");
    waiting(CloneSet, &at(6, json!("half"), [6, 6, 6]), "partition");
    waiting(CloneSet, &at(6, json!(-1), [6, 6, 6]), "negative");
    done(
        StatefulSet,
        &at(6, json!(4), [6, 2, 2]),
        r#"statefulset "web" is at its partition: 2 of 6 pods are updated"#,
    );
    waiting(
        StatefulSet,
        &at(6, json!(4), [5, 2, 2]),
        "5 of 6 pods exist",
    );
}

#[test]
fn unobserved_spec_is_never_done() {
    let mut object = seen(rolling(2, &json!(0)), pods([2, 2, 2]));
    object["metadata"]["generation"] = json!(3);
    waiting(RolloutKind::CloneSet, &object, "observe the spec");
    object["status"] = Value::Null;
    waiting(RolloutKind::CloneSet, &object, "observe the spec");
    object["metadata"]["generation"] = json!(0);
    waiting(RolloutKind::DaemonSet, &object, "observe the spec");
}

#[test]
fn paused_rollout_waits_and_names_the_remedy() {
    let spec = |paused| {
        json!({
            "replicas": 6,
            "updateStrategy": {"rollingUpdate": {"paused": paused}},
        })
    };
    let of = |numbers| seen(spec(true), pods(numbers));
    let kind = RolloutKind::CloneSet;
    waiting(
        kind,
        &of([6, 2, 2]),
        "is paused: 2 of 6 pods are updated; `kubectl berth rollout resume cloneset/web`",
    );
    done(kind, &of([6, 6, 6]), OUT);
    // A pause does not stop scaling.
    waiting(kind, &of([4, 4, 4]), "Waiting for");
}

#[test]
fn exceeded_deadline_fails_an_unfinished_rollout() {
    let exceeded = json!({
        "type": "Progressing",
        "status": "False",
        "reason": "ProgressDeadlineExceeded",
    });
    let of = |numbers| with_condition(seen(rolling(6, &json!(0)), pods(numbers)), exceeded.clone());
    let kind = RolloutKind::CloneSet;
    failed(
        kind,
        &of([6, 2, 1]),
        "exceeded its progress deadline: 2 of 6",
    );
    done(kind, &of([6, 6, 6]), OUT);
    let mut stale = of([6, 2, 1]);
    stale["metadata"]["generation"] = json!(3);
    waiting(kind, &stale, "observe the spec");
}

#[test]
fn blocked_rollout_waits() {
    let is = |reason: &str, numbers| {
        let blocked =
            json!({"type": "Blocked", "status": "True", "reason": reason, "message": "m"});
        with_condition(seen(rolling(6, &json!(4)), pods(numbers)), blocked)
    };
    let kind = RolloutKind::CloneSet;
    let looping = is("ContainerCrashLooping", [6, 2, 1]);
    waiting(kind, &looping, "1 of 2 updated pods are available");
    assert_eq!(blocked(&looping), Some(("ContainerCrashLooping", "m")));
    // The numbers of a refused spec are those of the last one.
    waiting(kind, &is("InvalidSpec", [6, 6, 6]), "refuses the spec");
    let passed = with_condition(
        seen(json!({}), pods([1, 1, 1])),
        json!({"type": "Blocked", "status": "False", "reason": "InvalidSpec"}),
    );
    assert_eq!(blocked(&passed), None);
    done(kind, &passed, OUT);
}

#[test]
fn deleted_object_fails() {
    let mut object = seen(rolling(2, &json!(0)), pods([2, 2, 2]));
    object["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
    failed(RolloutKind::CloneSet, &object, "is being deleted");
}

#[test]
fn on_delete_fails_only_with_outdated_pods() {
    let of = |numbers| {
        let spec = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
        seen(spec, pods(numbers))
    };
    let kind = RolloutKind::CloneSet;
    failed(kind, &of([3, 1, 1]), "OnDelete: 1 of 3 pods are updated");
    waiting(kind, &of([2, 2, 2]), "2 of 3 pods are updated");
    waiting(kind, &of([3, 3, 2]), "2 of 3 updated pods are available");
    done(kind, &of([3, 3, 3]), OUT);
}

fn nodes([desired, current, updated, available]: [i64; 4]) -> Value {
    let mut status = json!({
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": current,
        "updatedNumberScheduled": updated,
    });
    if available > 0 {
        status["numberAvailable"] = json!(available);
    }
    status
}

#[test]
fn rows_of_daemonsets() {
    let kind = RolloutKind::DaemonSet;
    let of = |partition: Value, numbers| seen(rolling(1, &partition), nodes(numbers));
    let out = r#"daemonset "web" successfully rolled out"#;
    done(kind, &of(json!(0), [3, 3, 3, 3]), out);
    let nowhere = r#"daemonset "web" successfully rolled out to no node: none has the labels and taints that spec.template.spec asks for"#;
    done(kind, &of(json!(0), [0, 0, 0, 0]), nowhere);
    let is_at = r#"daemonset "web" is at its partition: 2 of 3 nodes have an updated pod"#;
    done(kind, &of(json!(1), [3, 3, 2, 3]), is_at);
    // Rounded down, unlike that of a CloneSet.
    done(kind, &of(json!("50%"), [3, 3, 2, 3]), is_at);
    waiting(kind, &of(json!("50%"), [3, 3, 1, 3]), "1 of 2 nodes");
    waiting(
        kind,
        &of(json!(0), [3, 3, 3, 2]),
        "2 of 3 nodes have an available pod",
    );
    waiting(kind, &of(json!(3), [3, 2, 0, 2]), "2 of 3 nodes have a pod");
    let mut partitioned = of(json!(1), [3, 2, 2, 2]);
    partitioned["spec"]["scaleStrategy"] = json!({"partitionedScaling": true});
    done(kind, &partitioned, is_at);
    partitioned["status"]["currentNumberScheduled"] = json!(3);
    waiting(kind, &partitioned, "2 of 3 nodes have an available pod");
}

#[test]
fn uncounted_selector_fails() {
    let mut object = seen(json!({}), nodes([3, 3, 1, 3]));
    object["spec"]["updateStrategy"] =
        json!({"rollingUpdate": {"selector": {"matchLabels": {"zone": "a"}}}});
    failed(RolloutKind::DaemonSet, &object, "rollingUpdate.selector");
    object["status"]["updatedNumberScheduled"] = json!(3);
    done(
        RolloutKind::DaemonSet,
        &object,
        r#"daemonset "web" successfully rolled out"#,
    );
}

#[test]
fn rows_of_sidecarsets() {
    let kind = RolloutKind::SidecarSet;
    let of = |strategy: Value, [matched, updated, ready]: [i64; 3]| {
        let status =
            json!({"matchedPods": matched, "updatedPods": updated, "updatedReadyPods": ready});
        seen(json!({"updateStrategy": strategy}), status)
    };
    let out = r#"sidecarset "web" successfully rolled out"#;
    done(kind, &of(json!({}), [3, 3, 3]), out);
    done(kind, &of(json!({}), [0, 0, 0]), out);
    waiting(
        kind,
        &of(json!({}), [3, 3, 2]),
        "2 of 3 updated pods are ready",
    );
    waiting(kind, &of(json!({"paused": true}), [3, 1, 1]), "is paused");
    failed(
        kind,
        &of(json!({"type": "NotUpdate"}), [3, 1, 1]),
        "NotUpdate",
    );
    failed(kind, &of(json!({"selector": {}}), [3, 1, 1]), "selector");
    done(
        kind,
        &of(json!({"partition": "50%"}), [4, 2, 2]),
        r#"sidecarset "web" is at its partition: 2 of 4 pods are updated"#,
    );
}

#[test]
fn rows_of_uniteddeployments() {
    let kind = RolloutKind::UnitedDeployment;
    let of = |replicas: Value, [existing, updated, ready]: [i64; 3], partition| {
        let subsets = json!([
            {"name": "a", "replicas": 2, "partition": partition},
            {"name": "b", "replicas": 2},
        ]);
        let status = json!({
            "replicas": existing,
            "updatedReplicas": updated,
            "updatedReadyReplicas": ready,
            "subsetStatuses": subsets,
        });
        seen(json!({"replicas": replicas}), status)
    };
    let out = r#"uniteddeployment "web" successfully rolled out"#;
    done(kind, &of(json!(4), [4, 4, 4], 0), out);
    done(kind, &of(Value::Null, [4, 4, 4], 0), out);
    waiting(kind, &of(json!(4), [4, 3, 3], 0), "3 of 4 pods are updated");
    waiting(
        kind,
        &of(json!(4), [4, 4, 3], 0),
        "3 of 4 updated pods are ready",
    );
    done(
        kind,
        &of(json!(4), [4, 3, 3], 1),
        r#"uniteddeployment "web" is at its partition: 3 of 4 pods are updated"#,
    );
}

fn job(policy: &str, phase: &str, [succeeded, failed, active]: [i64; 3]) -> Value {
    json!({
        "metadata": {"name": "web", "generation": 1},
        "spec": {"completionPolicy": {"type": policy}},
        "status": {
            "phase": phase,
            "startTime": "2026-11-30T00:00:00Z",
            "desired": 3,
            "succeeded": succeeded,
            "failed": failed,
            "active": active,
        },
    })
}

#[test]
fn rows_of_broadcastjobs() {
    let kind = RolloutKind::BroadcastJob;
    let out = r#"broadcastjob "web" successfully rolled out"#;
    done(kind, &job("Always", "completed", [3, 0, 0]), out);
    done(kind, &job("Never", "running", [3, 0, 0]), out);
    failed(
        kind,
        &job("Always", "completed", [2, 1, 0]),
        "failed on 1 of 3",
    );
    failed(
        kind,
        &job("Never", "running", [2, 1, 0]),
        "failed on 1 of 3",
    );
    let ended = json!({"type": "Failed", "status": "True", "message": "the deadline passed"});
    let ended = with_condition(job("Always", "failed", [1, 0, 0]), ended);
    failed(kind, &ended, "the deadline passed");
    waiting(kind, &job("Always", "paused", [1, 0, 0]), "is paused");
    waiting(kind, &job("Always", "running", [3, 0, 0]), "3 of 3 nodes");
    waiting(kind, &job("Never", "running", [2, 0, 1]), "2 of 3 nodes");
    waiting(kind, &json!({"metadata": {"name": "web"}}), "0 of 0 nodes");
}

#[test]
fn rows_of_imagepulljobs() {
    let kind = RolloutKind::ImagePullJob;
    let out = r#"imagepulljob "web" successfully rolled out"#;
    let ended = |numbers| {
        let mut job = job("Always", "", numbers);
        job["status"]["completionTime"] = json!("2026-11-30T00:00:01Z");
        job["status"]["message"] = json!("2 of 3 nodes have the image, 1 failed");
        job
    };
    done(kind, &ended([3, 0, 0]), out);
    failed(
        kind,
        &ended([2, 1, 0]),
        "2 of 3 nodes have the image, 1 failed",
    );
    waiting(kind, &job("Always", "", [3, 0, 0]), "3 of 3 nodes");
    done(kind, &job("Never", "", [3, 0, 0]), out);
    waiting(kind, &job("Never", "", [2, 0, 0]), "2 of 3 nodes");
}

fn any_partition() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0i64..6).prop_map(|pods| json!(pods)),
        (0u8..=100).prop_map(|percent| json!(format!("{percent}%"))),
    ]
}

/// Numbers near each other, so that many statuses are at the end.
fn any_numbers() -> impl Strategy<Value = [i64; 4]> {
    let near = |number: i64| (0..=2i64).prop_map(move |less| (number - less).max(0));
    (0i64..6).prop_flat_map(move |most| [near(most), near(most), near(most), near(most)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn pods_are_done_exactly_at_the_end(
        [replicas, existing, updated, available] in any_numbers(),
        partition in any_partition(),
        is_paused: bool,
        is_stale in prop::bool::weighted(0.2),
    ) {
        let kind = RolloutKind::CloneSet;
        let mut object = seen(rolling(replicas, &partition), pods([existing, updated, available]));
        object["spec"]["updateStrategy"]["rollingUpdate"]["paused"] = json!(is_paused);
        if is_stale {
            object["status"]["observedGeneration"] = json!(1);
        }
        let expected = replicas - kind.kept(Some(&partition), replicas).unwrap();
        let is_updated = updated >= expected && available >= expected.max(updated);
        let is_end = !is_stale && existing == replicas && is_updated;
        let progress = progress(kind, &object);
        let is_done = matches!(progress, Progress::Done(_));
        prop_assert_eq!(is_done, is_end, "{:?} of {}", progress, object);
    }

    #[test]
    fn nodes_are_done_exactly_at_the_end(
        [desired, current, updated, available] in any_numbers(),
        partition in any_partition(),
    ) {
        let kind = RolloutKind::DaemonSet;
        let [current, updated, available] = [current, updated, available].map(|n| n.min(desired));
        let object = seen(rolling(1, &partition), nodes([desired, current, updated, available]));
        let expected = desired - kind.kept(Some(&partition), desired).unwrap();
        let is_end = current == desired && updated >= expected && available == desired;
        let progress = progress(kind, &object);
        let is_done = matches!(progress, Progress::Done(_));
        prop_assert_eq!(is_done, is_end, "{:?} of {}", progress, object);
    }
}

#[test]
fn foreign_data_never_panics() {
    let odd = [
        json!(null),
        json!(-1),
        json!(i64::MAX),
        json!("x"),
        json!([]),
        json!({}),
    ];
    let kinds = [
        "CloneSet",
        "StatefulSet",
        "DaemonSet",
        "SidecarSet",
        "UnitedDeployment",
    ];
    let all = crate::kinds::all();
    for one in &odd {
        for kind in all
            .iter()
            .filter(|kind| kinds.contains(&kind.resource.kind))
        {
            let kind = RolloutKind::of(kind).unwrap();
            let status = json!({
                "observedGeneration": 1, "replicas": one, "updatedReplicas": one,
                "desiredNumberScheduled": one, "currentNumberScheduled": one,
                "matchedPods": one, "subsetStatuses": [{"partition": one}, {"partition": one}],
                "conditions": one,
            });
            let strategy = json!({"partition": one, "rollingUpdate": {"partition": one}});
            let object = json!({
                "metadata": {"name": one, "generation": 1},
                "spec": {"replicas": one, "updateStrategy": strategy},
                "status": status,
            });
            let _ = progress(kind, &object);
        }
    }
}
