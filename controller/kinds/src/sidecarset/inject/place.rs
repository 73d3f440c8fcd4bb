//! Puts the parts of SidecarSets into a pod.

use serde_json::{Map, Value, json};

use super::super::sidecar::List;
use super::brought::{Brought, Container};
use super::json::{map, taken};
use super::request::Settings;

impl Brought {
    /// Puts all parts into a pod, whose lists and maps were checked.
    pub(super) fn place(self, pod: &mut Value, settings: &Settings<'_>) {
        let Some(pod) = pod.as_object_mut() else {
            return;
        };
        if let Some(spec) = map(pod, "spec") {
            let (inits, containers): (Vec<_>, Vec<_>) = self
                .containers
                .into_iter()
                .partition(|of| of.list == List::Init);
            for (mut brought, list, is_sorted) in [
                (inits, List::Init, true),
                (containers, List::Main, settings.sort_containers_by_name),
            ] {
                if is_sorted {
                    brought.sort_by(|one, other| one.name.cmp(&other.name));
                }
                place_containers(spec, list.name(), brought);
            }
            add_named(spec, "volumes", self.volumes);
            add_named(
                spec,
                "imagePullSecrets",
                self.pull_secrets
                    .into_iter()
                    .map(|name| json!({"name": name}))
                    .collect(),
            );
        }
        if !self.annotations.is_empty()
            && let Some(annotations) =
                map(pod, "metadata").and_then(|metadata| map(metadata, "annotations"))
        {
            annotations.extend(
                self.annotations
                    .into_iter()
                    .map(|(key, value)| (key, Value::String(value))),
            );
        }
    }
}

/// Puts each container at its present index, or before or after the pod's own.
fn place_containers(spec: &mut Map<String, Value>, list: &str, brought: Vec<Container>) {
    if brought.is_empty() {
        return;
    }
    let mut old = taken(spec, list);
    let (mut all, mut behind) = (Vec::new(), Vec::new());
    for Container {
        before,
        at,
        container,
        ..
    } in brought
    {
        match at.and_then(|at| old.get_mut(at)) {
            Some(place) => *place = container,
            None if before => all.push(container),
            None => behind.push(container),
        }
    }
    all.append(&mut old);
    all.append(&mut behind);
    spec.insert(list.to_owned(), Value::Array(all));
}

/// Adds items whose names the list does not have.
fn add_named(spec: &mut Map<String, Value>, list: &str, brought: Vec<Value>) {
    if brought.is_empty() {
        return;
    }
    let mut all = taken(spec, list);
    for item in brought {
        if !all.iter().any(|other| other["name"] == item["name"]) {
            all.push(item);
        }
    }
    spec.insert(list.to_owned(), Value::Array(all));
}
