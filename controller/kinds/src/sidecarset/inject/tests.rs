//! Each rule of injection, with pods and SidecarSets that are as short as possible.

mod annotations;
mod containers;
mod order;
mod properties;
mod shared;

use berth_api::v1beta1::sidecarset::SidecarSetSpec;
use serde_json::{Value, json};

use super::*;
use crate::sidecarset::history::hash::{Hashes, hashes};

pub(super) const NOW: &str = "2026-02-03T04:05:06Z";
pub(super) const LATER: &str = "2026-02-03T04:05:07Z";

/// A SidecarSet.
#[derive(Debug)]
pub(super) struct Set {
    name: String,
    spec: SidecarSetSpec,
    hashes: Hashes,
}

/// A SidecarSet with these containers, and the other fields of its spec.
pub(super) fn set(name: &str, spec: Value) -> Set {
    let spec = serde_json::from_value(spec).unwrap();
    Set {
        name: name.to_owned(),
        hashes: hashes(&spec),
        spec,
    }
}

pub(super) fn run(pod: &Value, sets: &[Set], sort: bool, now: &str) -> Injected {
    let revision = |set: &Set| format!("{}-1", set.name);
    let revisions: Vec<String> = sets.iter().map(revision).collect();
    let matched = sets.iter().zip(&revisions);
    let matched = matched.map(|(Set { name, spec, hashes }, revision)| Matched {
        name,
        spec,
        revision,
        hashes,
    });
    // Each call generates a new name, as the webhook's caller does.
    let suffix = &now[now.len() - 5..];
    let settings = Settings {
        sort_containers_by_name: sort,
        allows: &|_, key| !key.starts_with("forbidden"),
        suffix,
    };
    inject(pod, &matched.collect::<Vec<_>>(), &settings, now)
}

/// The pod with the SidecarSets, without refusals; and a second call changes nothing.
pub(super) fn injected(pod: &Value, sets: &[Set]) -> Value {
    let once = run(pod, sets, false, NOW);
    assert_eq!(
        (once.refusals.as_slice(), once.warnings.as_slice()),
        (&[][..], &[][..])
    );
    let twice = run(&once.pod, sets, false, LATER);
    assert_eq!(twice, once, "twice is once");
    once.pod
}

/// A pod of containers.
pub(super) fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"containers": containers}})
}

/// The names of a list.
pub(super) fn names(pod: &Value, list: &str) -> Vec<String> {
    let items = pod["spec"][list].as_array().into_iter().flatten();
    items
        .map(|item| item["name"].as_str().unwrap_or("?").to_owned())
        .collect()
}

pub(super) fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["initContainers", "containers"]
        .into_iter()
        .filter_map(|list| pod["spec"][list].as_array());
    lists
        .flatten()
        .find(|container| container["name"] == name)
        .unwrap()
}

/// The variables of a container, as `NAME=value`.
pub(super) fn variables(container: &Value) -> Vec<String> {
    let variables = container["env"].as_array().into_iter().flatten();
    let text = |variable: &Value| {
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"]
            .as_str()
            .unwrap_or_default();
        let value = variable["value"].as_str().unwrap_or(field);
        format!("{}={value}", variable["name"].as_str().unwrap_or("?"))
    };
    variables.map(text).collect()
}
