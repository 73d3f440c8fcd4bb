//! Which pods go first.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Pod;

/// Annotation: a number; the lower, the sooner the pod is deleted. Missing or no number means 0.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How crowded it is around each pod: the higher, the sooner the pod goes.
#[derive(Debug, Default)]
pub struct Ranks(pub(super) BTreeMap<Box<str>, f64>);

impl Ranks {
    /// The pod's rank; 0 where nothing crowds it.
    pub(super) fn of(&self, pod: &Pod) -> f64 {
        self.0.get(&pod.metadata.uid).copied().unwrap_or(0.0)
    }
}

/// Sorts pods for an update, the first to be updated first: what is out of service already comes before what serves.
pub fn for_update(pods: &mut [Arc<Pod>]) {
    // Each pod is looked at once, and not with each comparison: there may be thousands.
    let mut keyed: Vec<_> = pods
        .iter()
        .map(|pod| ((readiness(pod), Age::of(pod)), pod))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let sorted: Vec<_> = keyed.into_iter().map(|(_, pod)| pod.clone()).collect();
    pods.clone_from_slice(&sorted);
}

/// The whole order of deletion, but for what is known of availability.
pub(super) fn least_lost(a: &Pod, b: &Pod, ranks: Option<&Ranks>) -> Ordering {
    let rank = |pod: &Pod| ranks.map_or(0.0, |ranks| ranks.of(pod));
    readiness(a)
        .cmp(&readiness(b))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| rank(b).total_cmp(&rank(a)))
        .then_with(|| Age::of(a).cmp(&Age::of(b)))
}

/// Scheduled, phase: the lower, the less is lost.
pub(super) fn standing(pod: &Pod) -> (bool, u8) {
    let phase = match &*pod.status.phase {
        "Pending" | "" => 0,
        "Running" => 2,
        _ => 1,
    };
    (!pod.spec.node_name.is_empty(), phase)
}

fn readiness(pod: &Pod) -> ((bool, u8), bool) {
    (standing(pod), pod.is_true("Ready"))
}

/// As Kubernetes reads it: `+5` and `007` are no numbers.
fn deletion_cost(pod: &Pod) -> i32 {
    let written = pod.metadata.annotation(DELETION_COST).unwrap_or_default();
    let cost: i32 = written.parse().unwrap_or(0);
    let padded = written.starts_with('+') || (written.starts_with('0') && written != "0");
    if padded { 0 } else { cost }
}

/// Ready for less long, restarted more often, newer; at last by name, so that the order is always the same. Where a time is
/// not known, the pod goes before those with one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Age<'a> {
    ready: Option<Reverse<Timestamp>>,
    restarts: Reverse<i32>,
    created: Option<Reverse<Timestamp>>,
    name: &'a str,
}

impl<'a> Age<'a> {
    fn of(pod: &'a Pod) -> Self {
        let ready = pod.condition("Ready").filter(|c| &*c.status == "True");
        let restarts = pod
            .status
            .container_statuses
            .iter()
            .map(|c| c.restart_count)
            .max()
            .unwrap_or(0);
        Self {
            ready: ready.and_then(|c| c.last_transition_time).map(Reverse),
            restarts: Reverse(restarts),
            created: pod.metadata.creation_timestamp.map(Reverse),
            name: &pod.metadata.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::spread::{Spread, for_deletion};
    use crate::pod::{Condition, ContainerStatus, Metadata, Spec, Status};

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
    fn least_is_lost_first() {
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
    fn what_serves_is_updated_last_and_the_newest_first_of_equals() {
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
    fn the_crowded_node_gives_first() {
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
    fn what_is_ready_but_not_available_goes_before_what_is() {
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
}
