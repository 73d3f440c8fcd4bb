use serde_json::{Value, json};

use super::{Tone, state};

#[test]
fn word_of_pods() {
    let waiting = |reason: &str| {
        json!({"status": {"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": reason}}}]}})
    };
    let lifecycle = |word: &str, ready: &str| {
        json!({"metadata": {"labels": {"lifecycle.apps.kruise.io/state": word}},
               "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
    };
    let table: [(Value, Tone, &str); 14] = [
        (json!({}), Tone::Waiting, "Pending"),
        (
            json!({"status": {"phase": "Pending"}}),
            Tone::Waiting,
            "Pending",
        ),
        (
            json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
            Tone::Bad,
            "Evicted",
        ),
        (json!({"status": {"phase": "Failed"}}), Tone::Bad, "Failed"),
        (
            json!({"status": {"phase": "Succeeded"}}),
            Tone::Good,
            "Completed",
        ),
        (
            waiting("ContainerCreating"),
            Tone::Waiting,
            "ContainerCreating",
        ),
        (waiting("CrashLoopBackOff"), Tone::Bad, "CrashLoopBackOff"),
        (lifecycle("Normal", "True"), Tone::Good, "Running"),
        (lifecycle("Normal", "False"), Tone::Waiting, "NotReady"),
        (
            lifecycle("PreparingUpdate", "True"),
            Tone::Waiting,
            "PreparingUpdate",
        ),
        (lifecycle("PreparingNormal", "True"), Tone::Good, "Running"),
        (lifecycle("Updating", "False"), Tone::Waiting, "Updating"),
        (
            json!({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Running"}}),
            Tone::Waiting,
            "Terminating",
        ),
        (
            json!({"status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
            Tone::Warning,
            "SchedulingGated",
        ),
    ];
    for (pod, tone, word) in table {
        let got = state(&pod);
        assert_eq!((got.tone, &*got.word), (tone, word), "{pod}");
    }
}

#[test]
fn worst_container_gives_the_word() {
    let pod = json!({"status": {"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "ContainerCreating"}}},
        {"state": {"waiting": {"reason": "ErrImagePull"}}}]}});
    assert_eq!(state(&pod).word, "ErrImagePull");
}

#[test]
fn missing_image_comes_before_a_crash() {
    let pod = json!({"status": {"phase": "Running", "containerStatuses": [
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        {"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
    assert_eq!(state(&pod).word, "ImagePullBackOff");
}

#[test]
fn unscheduled_pod_has_its_reason_apart_from_facts() {
    let pod = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
        "message": "0/3 nodes are available"}]}, "spec": {"containers": [{"name": "a"}]}});
    let got = state(&pod);
    assert_eq!(got.reason, "0/3 nodes are available");
    assert_eq!(got.facts, ["ready 0/1"]);
}
