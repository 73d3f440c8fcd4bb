use serde_json::{Value, json};

use super::{Health, is_paused, state};

fn object(spec: Value, status: Value) -> Value {
    json!({"metadata": {"generation": 2}, "spec": spec, "status": status})
}

fn clone_set(rolling: Value, (updated, ready, current): (i64, i64, i64)) -> Value {
    object(
        json!({"replicas": 6, "updateStrategy": {"rollingUpdate": rolling}}),
        json!({"observedGeneration": 2, "replicas": current, "updatedReplicas": updated,
               "readyReplicas": ready, "availableReplicas": ready}),
    )
}

#[test]
fn state_of_clone_sets() {
    let table = [
        (json!({}), (6, 6, 6), Health::Healthy),
        (json!({}), (2, 6, 6), Health::Progressing),
        (json!({}), (6, 5, 6), Health::Progressing),
        (json!({}), (4, 4, 4), Health::Progressing),
        (json!({}), (7, 7, 7), Health::Progressing),
        (json!({"partition": 4}), (2, 6, 6), Health::AtPartition),
        (json!({"partition": 4}), (1, 6, 6), Health::Progressing),
        (json!({"partition": 4}), (2, 5, 6), Health::Progressing),
        (json!({"partition": 4}), (6, 6, 6), Health::Healthy),
        (json!({"partition": 9}), (0, 6, 6), Health::AtPartition),
        (json!({"partition": "50%"}), (3, 6, 6), Health::AtPartition),
        (json!({"partition": "99%"}), (1, 6, 6), Health::AtPartition),
        (json!({"partition": "99%"}), (0, 6, 6), Health::Progressing),
        (json!({"paused": true}), (2, 6, 6), Health::Paused),
        (json!({"paused": true}), (6, 6, 6), Health::Healthy),
        (json!({"partition": "x"}), (6, 6, 6), Health::Healthy),
    ];
    for (rolling, counts, health) in table {
        let got = state("clonesets", &clone_set(rolling.clone(), counts));
        assert_eq!(got.health, health, "{rolling} {counts:?}: {}", got.sentence);
    }
}

#[test]
fn unseen_generation_is_progress() {
    let mut set = clone_set(json!({}), (6, 6, 6));
    set["status"]["observedGeneration"] = json!(1);
    assert_eq!(state("clonesets", &set).health, Health::Progressing);
    assert_eq!(
        state("clonesets", &json!({"metadata": {"generation": 1}})).health,
        Health::Progressing
    );
}

#[test]
fn replicas_default_to_one_and_zero_is_healthy() {
    let status = json!({"observedGeneration": 2});
    let one = object(json!({}), status.clone());
    assert_eq!(state("clonesets", &one).counts.desired, 1);
    let none = object(json!({"replicas": 0}), status.clone());
    assert_eq!(state("clonesets", &none).sentence, "scaled to 0");
    assert_eq!(state("daemonsets", &one).health, Health::Healthy);
    assert_eq!(state("sidecarsets", &one).health, Health::Healthy);
}

#[test]
fn blocked_comes_first() {
    let mut set = clone_set(json!({"paused": true}), (2, 6, 6));
    set["status"]["conditions"] = json!([
        {"type": "Blocked", "status": "True", "reason": "ImageUnavailable", "message": "m"}]);
    let got = state("clonesets", &set);
    assert_eq!(
        (got.health, &*got.short()),
        (Health::Blocked, "Blocked: ImageUnavailable")
    );
    set["status"]["conditions"] = json!([
        {"type": "Blocked", "status": "False", "reason": "ImageUnavailable"}]);
    assert_eq!(state("clonesets", &set).health, Health::Paused);
    set["status"]["conditions"] = json!([
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "m"}]);
    assert_eq!(
        state("clonesets", &set).short(),
        "Blocked: ProgressDeadlineExceeded"
    );
}

#[test]
fn on_delete_does_not_progress_by_itself() {
    let mut set = clone_set(json!({}), (2, 6, 6));
    set["spec"]["updateStrategy"]["type"] = json!("OnDelete");
    assert_eq!(state("clonesets", &set).health, Health::Healthy);
}

#[test]
fn state_of_daemon_sets() {
    let of = |rolling: Value, updated: i64, available: Option<i64>| {
        let mut status = json!({"observedGeneration": 2, "desiredNumberScheduled": 3,
            "currentNumberScheduled": 3, "numberReady": 3, "updatedNumberScheduled": updated});
        if let Some(available) = available {
            status["numberAvailable"] = json!(available);
        }
        let set = object(
            json!({"updateStrategy": {"rollingUpdate": rolling}}),
            status,
        );
        state("daemonsets", &set).health
    };
    assert_eq!(of(json!({}), 3, Some(3)), Health::Healthy);
    assert_eq!(of(json!({}), 3, None), Health::Progressing);
    // Half of three is one, because the controller rounds down.
    assert_eq!(
        of(json!({"partition": "50%"}), 2, Some(3)),
        Health::AtPartition
    );
    assert_eq!(
        of(json!({"partition": "50%"}), 1, Some(3)),
        Health::Progressing
    );
}

#[test]
fn state_of_jobs() {
    let of = |phase: &str, failed: i64| {
        let status =
            json!({"phase": phase, "desired": 3, "succeeded": 3 - failed, "failed": failed});
        state("broadcastjobs", &object(json!({}), status)).health
    };
    assert_eq!(of("completed", 0), Health::Healthy);
    assert_eq!(of("completed", 1), Health::Failed);
    assert_eq!(of("failed", 1), Health::Failed);
    assert_eq!(of("paused", 0), Health::Paused);
    assert_eq!(of("running", 0), Health::Progressing);
}

#[test]
fn paused_is_read_where_the_kind_has_it() {
    assert!(is_paused(
        "sidecarsets",
        &json!({"spec": {"updateStrategy": {"paused": true}}})
    ));
    assert!(is_paused(
        "broadcastjobs",
        &json!({"spec": {"paused": true}})
    ));
    assert!(!is_paused("clonesets", &json!({"spec": {"paused": true}})));
}
