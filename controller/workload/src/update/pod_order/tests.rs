use super::*;
use crate::objects::pod::{Condition, ContainerStatus, Metadata, Spec, Status};
use crate::update::pod_order::spread::{Spread, for_deletion};

struct Given(
    &'static str,
    &'static str,
    &'static str,
    bool,
    i32,
    i32,
    i64,
);

fn pod(Given(name, node, phase, ready, cost, restarts, created): &Given) -> Arc<Pod> {
    let status = if *ready { "True" } else { "False" };
    Arc::new(Pod {
        metadata: Metadata {
            name: (*name).into(),
            uid: (*name).into(),
            creation_timestamp: Timestamp::from_second(*created).ok(),
            annotations: [(DELETION_COST.into(), cost.to_string().into())].into(),
            ..Metadata::default()
        },
        spec: Spec {
            node_name: (*node).into(),
            ..Spec::default()
        },
        status: Status {
            phase: (*phase).into(),
            conditions: [Condition {
                type_: "Ready".into(),
                status: status.into(),
                ..Condition::default()
            }]
            .into(),
            container_statuses: [ContainerStatus {
                restart_count: *restarts,
                ..ContainerStatus::default()
            }]
            .into(),
            ..Status::default()
        },
    })
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.metadata.name).collect()
}

#[test]
fn deletion_begins_with_the_least_useful_pod() {
    let mut pods: Vec<_> = [
        Given("older", "n1", "Running", true, 0, 0, 10),
        Given("newer", "n2", "Running", true, 0, 0, 20),
        Given("restarted", "n3", "Running", true, 0, 3, 10),
        Given("cheap", "n4", "Running", true, -5, 0, 10),
        Given("unready", "n5", "Running", false, 9, 0, 10),
        Given("pending", "n6", "Pending", false, 0, 0, 10),
        Given("unscheduled", "", "Pending", false, 0, 0, 10),
        Given("dear", "n7", "Running", true, 5, 9, 30),
    ]
    .iter()
    .map(pod)
    .collect();
    for_deletion(&mut pods, &Spread::default(), |pod| pod.is_true("Ready"));
    let expected = [
        "unscheduled",
        "pending",
        "unready",
        "cheap",
        "restarted",
        "newer",
        "older",
        "dear",
    ];
    assert_eq!(names(&pods), expected);
}

#[test]
fn update_begins_with_unready_and_newest_pods() {
    let mut pods: Vec<_> = [
        Given("serves", "n1", "Running", true, 0, 0, 10),
        Given("serves-newer", "n1", "Running", true, 0, 0, 20),
        Given("unready", "n2", "Running", false, 0, 0, 10),
        Given("ended", "n3", "Failed", false, 0, 0, 10),
        Given("pending", "n4", "Pending", false, 0, 0, 10),
        Given("unknown", "n4", "", false, 0, 0, 5),
        Given("unscheduled", "", "Pending", false, 0, 0, 10),
    ]
    .iter()
    .map(pod)
    .collect();
    for_update(&mut pods);
    let expected = [
        "unscheduled",
        "pending",
        "unknown",
        "ended",
        "unready",
        "serves-newer",
        "serves",
    ];
    assert_eq!(names(&pods), expected);
}

#[test]
fn deletion_begins_on_the_crowded_node() {
    let mut pods: Vec<_> = [
        Given("a", "n1", "Running", true, 0, 0, 10),
        Given("b", "n2", "Running", true, 0, 0, 30),
        Given("c", "n1", "Running", true, 0, 0, 10),
    ]
    .iter()
    .map(pod)
    .collect();
    for_deletion(&mut pods, &Spread::default(), |pod| pod.is_true("Ready"));
    assert!(["a", "c"].contains(&names(&pods)[0]), "{:?}", names(&pods));
    assert_eq!(names(&pods)[1], "b");
}

#[test]
fn ready_pods_are_deleted_before_available_ones() {
    let mut pods: Vec<_> = [
        Given("available", "n1", "Running", true, -9, 0, 10),
        Given("ready", "n2", "Running", true, 0, 0, 10),
        Given("unready", "n3", "Running", false, 0, 0, 10),
    ]
    .iter()
    .map(pod)
    .collect();
    for_deletion(&mut pods, &Spread::default(), |pod| {
        &*pod.metadata.name == "available"
    });
    assert_eq!(names(&pods), ["unready", "ready", "available"]);
}

#[test]
fn deletion_costs_are_read_as_kubernetes_reads_them() {
    for (written, expected) in [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("+5", 0),
        ("007", 0),
        ("", 0),
        ("many", 0),
        ("99999999999", 0),
    ] {
        let mut given = (*pod(&Given("a", "n", "Running", true, 0, 0, 0))).clone();
        given.metadata.annotations = [(DELETION_COST.into(), written.into())].into();
        assert_eq!(deletion_cost(&given), expected, "{written:?}");
    }
}
