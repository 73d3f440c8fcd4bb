//! Laws of every run, checked on the history of workloads and pods.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use berth_api::names::label::SUBSET_NAME;
use berth_e2e::record::Record;
use serde_json::{Value, json};

use crate::broken::is_found;
use crate::history::State;

/// No subset has two workloads of one kind at a time.
pub(super) fn no_second_workload(workloads: &[State]) -> Result<()> {
    let mut there = BTreeMap::<&str, &Value>::new();
    for (name, workload) in workloads {
        if workload.is_null() {
            there.remove(&**name);
            continue;
        }
        let subset = &workload["metadata"]["labels"][SUBSET_NAME];
        let other = there
            .iter()
            .find(|(other, of)| **other != name && **of == subset);
        ensure!(
            other.is_none(),
            "subset {subset} has workloads {name} and {:?} at a time",
            other.map(|(name, _)| name)
        );
        there.insert(name, subset);
    }
    Ok(())
}

/// No subset has pods of two workloads at a time.
pub(super) fn no_two_generations(record: &Record) -> Result<()> {
    for moment in record.moments() {
        let mut workloads = BTreeMap::<&str, BTreeSet<&str>>::new();
        for pod in moment.pods.values().map(|standing| standing.pod) {
            let workload = pod
                .name
                .rsplit_once('-')
                .map_or("", |(workload, _)| workload);
            let of_subset = workloads.entry(pod.label(SUBSET_NAME)).or_default();
            of_subset.insert(workload);
            ensure!(
                of_subset.len() == 1,
                "a subset has pods of {of_subset:?} at a time: {}",
                moment.describe()
            );
        }
    }
    Ok(())
}

/// Checks that the law accepts a history that keeps it, and finds a history that breaks it.
pub(crate) fn broken() -> Result<()> {
    let workload = |name: &str, subset: &str| {
        (
            name.to_owned(),
            json!({"metadata": {"name": name, "labels": {SUBSET_NAME: subset}}}),
        )
    };
    let gone = |name: &str| (name.to_owned(), Value::Null);
    no_second_workload(&[
        workload("x", "a"),
        workload("x", "a"),
        workload("y", "b"),
        gone("x"),
        workload("z", "a"),
    ])?;
    is_found(
        no_second_workload(&[workload("x", "a"), workload("y", "a")]),
        "has workloads y and Some(\"x\") at a time",
    )
}
