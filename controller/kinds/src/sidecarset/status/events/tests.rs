use berth_workload::objects::resource::{CONTROLLER_REVISIONS, IMAGE_PULL_JOBS, PODS};
use berth_workload::plan::{Failure, Verb, Write};
use serde_json::json;

use super::*;
use crate::sidecarset::decide;
use crate::sidecarset::tests::{NOW, hot_pod, hot_snapshot};

#[test]
fn events_of_pods_with_equal_names_are_kept_apart() {
    let of = |namespace: &str| {
        let mut pod = hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", [true, true]);
        pod["metadata"]["namespace"] = json!(namespace);
        pod["metadata"]["uid"] = json!(namespace);
        pod
    };
    let plan = decide(&hot_snapshot(&[of("one"), of("two")], json!({})), NOW);
    let (succeeded, failed) = ("ResetContainerSucceed", "ResetContainerFailed");
    for (verb, namespace, expected) in [
        (Verb::Patch, "one", [("one", failed), ("two", succeeded)]),
        (Verb::Patch, "two", [("one", succeeded), ("two", failed)]),
        (
            Verb::Patch,
            "three",
            [("one", succeeded), ("two", succeeded)],
        ),
        (
            Verb::PatchStatus,
            "one",
            [("one", succeeded), ("two", succeeded)],
        ),
    ] {
        let failure = Failure::of_budget(Write::of(verb, PODS), (namespace, "a"), "no".to_owned());
        let told = pod_events(
            &Turns::default(),
            &plan,
            &Outcome {
                failures: vec![failure],
            },
        );
        let told: Vec<_> = told
            .iter()
            .map(|(pod, event)| (pod.namespace.as_str(), event.reason))
            .collect();
        assert_eq!(told, expected, "{verb:?} in namespace {namespace}");
    }
}

#[test]
fn untried_updates_send_no_events() {
    let pod = hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", [true, true]);
    let mut snapshot = hot_snapshot(&[pod], json!({}));
    // Without the revision the plan stops.
    snapshot.revisions.clear();
    let plan = decide(&snapshot, NOW);
    for (resource, told) in [(CONTROLLER_REVISIONS, 0), (IMAGE_PULL_JOBS, 1)] {
        let write = Write::of(Verb::Create, resource);
        let failure = Failure::of_budget(write, ("kruise-system", "log-1"), "no".to_owned());
        assert_eq!(
            pod_events(
                &Turns::default(),
                &plan,
                &Outcome {
                    failures: vec![failure]
                }
            )
            .len(),
            told,
            "{write}"
        );
    }
}
