//! The part of a workload that is a pod's spec, and its containers.

use anyhow::bail;
use berth_kinds::broadcastjob::BROADCAST_JOBS;
use berth_kinds::uniteddeployment::{SubsetKind, UNITED_DEPLOYMENTS};
use berth_workload::objects::resource::{
    CLONE_SETS, DAEMON_SETS, DEPLOYMENTS, Resource, SIDECAR_SETS, STATEFUL_SETS,
};
use serde_json::{Map, Value, json};

use crate::exit::WrongUsage;
use crate::objects;

/// The lists of containers in a pod's spec.
pub const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The kind of the workloads of a UnitedDeployment's subsets.
pub fn subset_kind(object: &Value) -> Option<SubsetKind> {
    let is_set = |kind: &SubsetKind| object["spec"]["template"][kind.template_field()].is_object();
    SubsetKind::ALL.into_iter().find(is_set)
}

/// The JSON pointer to the object that has `template`, the pods' template: `/spec`, or the spec of
/// the subsets' workloads.
///
/// # Errors
/// The kind makes no pods.
pub fn owner_pointer(resource: Resource, object: &Value) -> Result<String, WrongUsage> {
    match resource {
        CLONE_SETS | STATEFUL_SETS | DAEMON_SETS | DEPLOYMENTS | BROADCAST_JOBS => {
            Ok("/spec".to_owned())
        }
        UNITED_DEPLOYMENTS => match subset_kind(object) {
            Some(kind) => Ok(format!("/spec/template/{}/spec", kind.template_field())),
            None => Err(WrongUsage(format!(
                "uniteddeployment {:?} has no template of a kind that this plugin knows",
                objects::name(object)
            ))),
        },
        _ => Err(WrongUsage(format!(
            "a {} has no pod template; name a workload, such as cloneset/NAME",
            resource.kind.to_lowercase()
        ))),
    }
}

/// The JSON pointer to the pod's spec, or to the spec with a SidecarSet's containers.
///
/// # Errors
/// The kind has no containers.
pub fn pointer(resource: Resource, object: &Value) -> Result<String, WrongUsage> {
    match resource {
        SIDECAR_SETS => Ok("/spec".to_owned()),
        _ => owner_pointer(resource, object).map(|owner| format!("{owner}/template/spec")),
    }
}

/// The containers, init containers among them, whose names match one of the patterns. In a pattern
/// `*` stands for any characters.
///
/// # Errors
/// A pattern matches no container; the message names the containers.
pub fn containers<'a>(
    spec: &'a mut Value,
    patterns: &[&str],
) -> anyhow::Result<Vec<&'a mut Map<String, Value>>> {
    let names: Vec<_> = LISTS
        .iter()
        .flat_map(|list| objects::items(spec, &format!("/{list}")))
        .map(|container| objects::text(container, "/name").to_owned())
        .collect();
    for pattern in patterns {
        if !names.iter().any(|name| is_match(pattern, name)) {
            bail!(
                "there is no container {pattern:?}; the containers are {}",
                names.join(", ")
            );
        }
    }
    let lists = spec.as_object_mut().into_iter().flatten();
    let lists = lists.filter(|(key, _)| LISTS.contains(&key.as_str()));
    let all = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
    let is_chosen = |container: &&mut Map<String, Value>| {
        let name = container.get("name").and_then(Value::as_str);
        patterns
            .iter()
            .any(|pattern| is_match(pattern, name.unwrap_or_default()))
    };
    Ok(all
        .filter_map(Value::as_object_mut)
        .filter(is_chosen)
        .collect())
}

/// The object of this name in another one; it is made if there is none. `None` if it is of another
/// type.
pub fn object_in<'a>(
    parent: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    parent
        .entry(name)
        .or_insert_with(|| json!({}))
        .as_object_mut()
}

fn is_match(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((first, rest)) => name.strip_prefix(first).is_some_and(|name| {
            let mut ends = name.char_indices().map(|(at, _)| &name[at..]).chain([""]);
            ends.any(|end| is_match(rest, end))
        }),
    }
}

#[cfg(test)]
mod tests;
