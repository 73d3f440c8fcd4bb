use berth_api::kinds::KINDS;
use berth_workload::feature_gates::Gate;

use super::*;

#[test]
fn each_kind_has_a_controller() {
    for kind in &KINDS {
        let has = ALL.iter().any(|entry| entry.resource == Resource::of(kind));
        assert!(
            has,
            "ALL in controller/src/controllers.rs has no controller of {}",
            kind.kind
        );
    }
}

#[test]
fn kind_is_explained_by_each_of_its_names() {
    for (name, kind) in [
        ("CloneSet", "CloneSet"),
        ("clonesets", "CloneSet"),
        ("clone", "CloneSet"),
        ("ads", "DaemonSet"),
        ("asts", "StatefulSet"),
        ("crr", "ContainerRecreateRequest"),
        ("bcj", "BroadcastJob"),
        ("persistentpodstate", "PersistentPodState"),
        ("dpdb", "DistributedPodDisruptionBudget"),
        ("pub", "PodUnavailableBudget"),
        ("sidecarsets", "SidecarSet"),
        ("ud", "UnitedDeployment"),
    ] {
        let found = explained(name).map(|explained| explained.resource.kind);
        assert_eq!(found, Some(kind), "{name}");
    }
    assert!(explained("nodeimage").is_none() && explained("").is_none());
}

#[test]
fn jobs_are_taken_in_only_where_images_are_pulled() {
    let open = Gates::default().with(Gate::ImagePullJob, true);
    assert!(closed(open).is_empty());
    let closed = closed(open.with(Gate::ImagePullJob, false));
    assert_eq!(
        closed.keys().copied().collect::<Vec<_>>(),
        ["imagelistpulljobs", "imagepulljobs"]
    );
}
