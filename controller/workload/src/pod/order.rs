//! Which pods go first.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Pod;

/// Annotation: a number; the lower, the sooner the pod is deleted. Missing means 0.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods for deletion, the first to go first: not scheduled, then pending, then not ready, then cheap ones by
/// deletion cost, then doubled-up ones on a node, then those ready for less long, restarted more often, or newer.
pub fn for_deletion(pods: &mut [Arc<Pod>]) {
    let rank = ranks_on_node(pods);
    pods.sort_by(|a, b| {
        readiness(a)
            .cmp(&readiness(b))
            .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
            .then_with(|| Reverse(rank[&*a.metadata.uid]).cmp(&Reverse(rank[&*b.metadata.uid])))
            .then_with(|| age(a, b))
    });
}

/// Sorts pods for an update, the first to be updated first: what is out of service already comes before what serves.
pub fn for_update(pods: &mut [Arc<Pod>]) {
    pods.sort_by(|a, b| readiness(a).cmp(&readiness(b)).then_with(|| age(a, b)));
}

/// Scheduled, phase, ready: the lower, the less is lost.
fn readiness(pod: &Pod) -> (bool, u8, bool) {
    let phase = match &*pod.status.phase {
        "Pending" | "" => 0,
        "Running" => 2,
        _ => 1,
    };
    (!pod.spec.node_name.is_empty(), phase, pod.is_true("Ready"))
}

fn deletion_cost(pod: &Pod) -> i32 {
    pod.metadata.annotation(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Ready for less long, restarted more often, newer; at last by name, so that the order is always the same.
fn age(a: &Pod, b: &Pod) -> Ordering {
    let ready_since = |pod: &Pod| pod.condition("Ready").and_then(|c| c.last_transition_time);
    let later_first = |a: Option<Timestamp>, b: Option<Timestamp>| b.cmp(&a);
    let restarts = |pod: &Pod| pod.status.container_statuses.iter().map(|c| c.restart_count).max().unwrap_or(0);
    later_first(ready_since(a), ready_since(b))
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| later_first(a.metadata.creation_timestamp, b.metadata.creation_timestamp))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

/// How many pods of the set share the pod's node and would stay if it went first: the most crowded node gives first.
fn ranks_on_node(pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, usize> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ready_last: Vec<_> = pods.iter().collect();
    ready_last.sort_by_key(|pod| Reverse(readiness(pod)));
    let mut ranks = BTreeMap::new();
    for pod in ready_last {
        let on_node = seen.entry(&pod.spec.node_name).or_default();
        ranks.insert(pod.metadata.uid.clone(), *on_node);
        *on_node += 1;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{Condition, ContainerStatus, Metadata, Spec, Status};

    struct Given(&'static str, &'static str, &'static str, bool, i32, i32, i64);

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
            spec: Spec { node_name: (*node).into(), ..Spec::default() },
            status: Status {
                phase: (*phase).into(),
                conditions: [Condition { type_: "Ready".into(), status: status.into(), ..Condition::default() }].into(),
                container_statuses: [ContainerStatus { restart_count: *restarts, ..ContainerStatus::default() }].into(),
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
        for_deletion(&mut pods);
        let expected = ["unscheduled", "pending", "unready", "cheap", "restarted", "newer", "older", "dear"];
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
        for_deletion(&mut pods);
        assert!(["a", "c"].contains(&names(&pods)[0]), "{:?}", names(&pods));
        assert_eq!(names(&pods)[1], "b");
    }
}
