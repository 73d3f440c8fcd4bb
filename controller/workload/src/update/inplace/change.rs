//! The differences between two pod templates, and whether a running pod can take them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::env::Readers;
use super::resize::{self, Ability};
use super::restart;
use crate::feature_gates::{Gate, Gates};
use crate::objects::patch::pod::Env;
use crate::plan::PodPatch;
use crate::update::revision::defaults;

/// The change from one template to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Patches of the running pod suffice: images and resources of containers, labels and
    /// annotations. Empty if nothing differs.
    InPlace(PodPatch),
    /// The change needs a new pod.
    Recreate {
        /// The fields that differ and cannot change in a running pod, in the notation of `kubectl
        /// explain`.
        fields: Vec<String>,
    },
}

/// The most variables of one pod for which a change may restart containers. With more, the pod's
/// entries in the spec and status of its NodeImage would become too large.
pub const MAX_VARIABLES: usize = 64;

impl Change {
    /// Applies the feature gates: if they are off, or without daemons, labels and annotations
    /// restart no container. A change of more than [`MAX_VARIABLES`] variables needs a new pod.
    pub fn gate_variables(mut self, gates: Gates) -> Self {
        let Self::InPlace(patch) = &mut self else {
            return self;
        };
        if !(gates.has(Gate::InPlaceUpdateEnvFromMetadata) && gates.has(Gate::KruiseDaemon)) {
            patch.env = Env::default();
        }
        if patch.env.0.values().map(BTreeMap::len).sum::<usize>() > MAX_VARIABLES {
            let what = format!(
                "template.spec.containers[].env (more than {MAX_VARIABLES} from labels and annotations)"
            );
            return Self::Recreate { fields: vec![what] };
        }
        self
    }

    /// Applies the feature gates: without daemons, restarted containers need a new pod.
    pub fn gate_restarts(self, gates: Gates) -> Self {
        match self {
            Self::InPlace(patch)
                if !patch.restarted.is_empty() && !gates.has(Gate::KruiseDaemon) =>
            {
                Self::Recreate {
                    fields: vec![restart::field(
                        "only daemons restart containers, and feature gate KruiseDaemon is off",
                    )],
                }
            }
            change => change,
        }
    }
}

/// Compares two pod templates by their meaning: a default that one of them spells out is no
/// difference. `ability` says whether resources may change in place.
pub fn between(old: &Value, new: &Value, ability: Ability) -> Change {
    let (old, new) = &defaults::dropped(old, new);
    let mut patch = PodPatch::default();
    let mut fields = Vec::new();
    for key in keys(old, new) {
        let (old, new) = (&old[key], &new[key]);
        match key {
            "metadata" => metadata(old, new, &mut patch, &mut fields),
            "spec" => spec(old, new, ability, &mut patch, &mut fields),
            _ => differing(key, old, new, &mut fields),
        }
    }
    patch.env = Readers::new(new).of(&patch);
    patch.restarted = restart::restarted_containers(new, &patch, &mut fields);
    if !patch.resources.is_empty()
        && let Some(why) = resize::obstacle(ability, old, new)
    {
        let resized = std::mem::take(&mut patch.resources).into_iter();
        fields.extend(resized.map(|(name, resize)| {
            format!("template.spec.{}[{name}].resources ({why})", resize.list())
        }));
    }
    if fields.is_empty() {
        Change::InPlace(patch)
    } else {
        Change::Recreate { fields }
    }
}

fn metadata(old: &Value, new: &Value, patch: &mut PodPatch, fields: &mut Vec<String>) {
    for key in keys(old, new) {
        match key {
            "labels" => patch.labels = entries(&old[key], &new[key]),
            "annotations" => patch.annotations = entries(&old[key], &new[key]),
            _ => differing(&format!("metadata.{key}"), &old[key], &new[key], fields),
        }
    }
}

/// The changed entries of a map; removed ones with `None`.
fn entries(old: &Value, new: &Value) -> BTreeMap<String, Option<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let changed = keys(old, new)
        .into_iter()
        .filter(|key| old[*key] != new[*key]);
    changed
        .map(|key| (key.to_owned(), text(&new[key])))
        .collect()
}

fn spec(
    old: &Value,
    new: &Value,
    ability: Ability,
    patch: &mut PodPatch,
    fields: &mut Vec<String>,
) {
    for key in keys(old, new) {
        if !["containers", "initContainers"].contains(&key)
            || !same_containers(&old[key], &new[key])
        {
            differing(&format!("spec.{key}"), &old[key], &new[key], fields);
            continue;
        }
        let pairs = list(&old[key]).iter().zip(list(&new[key]));
        for (old, new) in pairs {
            container(key, old, new, ability, patch, fields);
        }
    }
}

/// Whether both have the same names in the same order. Otherwise single containers cannot be
/// compared.
fn same_containers(old: &Value, new: &Value) -> bool {
    let names = |value| {
        list(value)
            .iter()
            .map(|c: &Value| c["name"].as_str())
            .collect::<Vec<_>>()
    };
    old.is_array() && new.is_array() && names(old) == names(new)
}

/// Compares a container of this list. Of init containers, only the resources of sidecars change in
/// place: the others have ended, and a restart of a sidecar does not count as an update of the pod.
fn container(
    list: &str,
    old: &Value,
    new: &Value,
    ability: Ability,
    patch: &mut PodPatch,
    fields: &mut Vec<String>,
) {
    let name = new["name"].as_str().unwrap_or_default();
    let is_init = list == "initContainers";
    let runs_on = !is_init
        || [old, new]
            .iter()
            .all(|container| container["restartPolicy"] == "Always");
    for key in keys(old, new) {
        match (key, new[key].as_str()) {
            ("image", Some(image)) if old[key].is_string() && !is_init => {
                if old[key] != new[key] {
                    patch.images.insert(name.to_owned(), image.to_owned());
                }
            }
            ("resources", _) if ability != Ability::Off && runs_on => {
                resize::compare((list, name), old, new, &mut patch.resources, fields)
            }
            _ => differing(
                &format!("spec.{list}[{name}].{key}"),
                &old[key],
                &new[key],
                fields,
            ),
        }
    }
}

/// Adds the field if its values differ. [`defaults::dropped`] has removed meaningless values, so
/// that a remaining empty object may choose something, as `emptyDir: {}` does.
fn differing(field: &str, old: &Value, new: &Value, fields: &mut Vec<String>) {
    if old != new {
        fields.push(format!("template.{field}"));
    }
}

fn keys<'a>(old: &'a Value, new: &'a Value) -> Vec<&'a str> {
    let map = |value: &'a Value| {
        value
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
    };
    let mut keys: Vec<_> = map(old).chain(map(new)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
