//! The laws for any run of a job, checked on the history of its pods.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::broken::is_found;
use crate::history::State;

/// The node that a pod is on, or may be scheduled to.
pub(super) fn node_of(pod: &Value) -> &str {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    let pinned = terms[0]["matchFields"][0]["values"][0].as_str();
    pod["spec"]["nodeName"]
        .as_str()
        .or(pinned)
        .unwrap_or_default()
}

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"]
        .iter()
        .any(|phase| pod["status"]["phase"] == *phase)
}

/// No node gets a pod after another one has ended there, nor two at a time.
pub(super) fn runs_twice(pods: &[State]) -> Result<()> {
    let (mut there, mut ended) = (
        BTreeMap::<&str, &Value>::new(),
        BTreeMap::<&str, &Value>::new(),
    );
    for (name, pod) in pods {
        if pod.is_null() {
            there.remove(&**name);
            continue;
        }
        let (node, uid) = (node_of(pod), &pod["metadata"]["uid"]);
        let other = there
            .iter()
            .find(|(other, pod)| **other != name && node_of(pod) == node);
        ensure!(
            other.is_none(),
            "node {node} has pods {name} and {} at a time",
            other.map_or("", |(name, _)| name)
        );
        let before = ended.get(node).filter(|before| **before != uid);
        ensure!(
            before.is_none(),
            "node {node} had its turn, and gets pod {name} once more"
        );
        there.insert(name, pod);
        if has_ended(pod) {
            ended.insert(node, uid);
        }
    }
    Ok(())
}

/// No more pods than this run at a time.
pub(super) fn more_than_may_run(pods: &[State], most: usize) -> Result<()> {
    let mut there = BTreeMap::<&str, &Value>::new();
    for (name, pod) in pods {
        match pod.is_null() || has_ended(pod) {
            true => there.remove(&**name),
            false => there.insert(name, pod),
        };
        ensure!(
            there.len() <= most,
            "{} pods run at a time, and {most} may: {:?}",
            there.len(),
            there.keys()
        );
    }
    Ok(())
}

/// Histories that each break a law; the check must find them.
pub(crate) fn broken() -> Result<()> {
    let pod = |uid: &str, node: &str, phase: &str| {
        let pod = json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}, "status": {"phase": phase}});
        (format!("once-{node}"), pod)
    };
    let gone = |node: &str| (format!("once-{node}"), Value::Null);
    let lost = [
        pod("1", "a", "Running"),
        gone("a"),
        pod("2", "a", "Pending"),
        pod("2", "a", "Succeeded"),
    ];
    runs_twice(&lost)?;
    more_than_may_run(&lost, 1)?;
    let again = [
        pod("1", "a", "Succeeded"),
        gone("a"),
        pod("2", "a", "Pending"),
    ];
    is_found(
        runs_twice(&again),
        "node a had its turn, and gets pod once-a once more",
    )?;
    let mut beside = pod("2", "a", "Pending");
    beside.0 = "once-b".to_owned();
    is_found(
        runs_twice(&[pod("1", "a", "Running"), beside]),
        "node a has pods once-b and once-a at a time",
    )?;
    let both = [pod("1", "a", "Running"), pod("2", "b", "Pending")];
    more_than_may_run(&both, 2)?;
    is_found(
        more_than_may_run(&both, 1),
        "2 pods run at a time, and 1 may",
    )
}
