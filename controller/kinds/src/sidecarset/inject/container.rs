//! One container of a SidecarSet, as a pod gets it.

use std::collections::BTreeSet;

use berth_api::names::env::CONTAINER_PRIORITY;
use berth_api::v1beta1::sidecarset::{ShareVolumePolicy, ShareVolumePolicyType, SidecarContainer};
use serde_json::{Map, Value, json};

use super::super::names::{
    IS_INJECTED, VERSION_ALT_PREFIX, VERSION_ALT_VARIABLE, VERSION_PREFIX, VERSION_VARIABLE,
};
use super::json::taken;
use super::own::{self, Own};
use super::resources;

/// The container with this name, and with this image in place of its own. If the resources policy
/// has no result, the container keeps the resources that the SidecarSet writes, and the text has
/// the reason. Otherwise a pod could get rid of a sidecar by the numbers of its own containers.
pub(super) fn made(
    sidecar: &SidecarContainer,
    (name, image): (&str, Option<&str>),
    is_hot: bool,
    own: &Own<'_>,
) -> (Value, Option<String>) {
    let mut container = sidecar.container.clone();
    container.insert("name".to_owned(), json!(name));
    if let Some(image) = image {
        container.insert("image".to_owned(), json!(image));
    }
    let mut without_result = None;
    if let Some(policy) = &sidecar.resources_policy {
        let targets: Vec<&Value> = own.natives.iter().chain(&own.containers).copied().collect();
        match resources::resources(policy, &targets) {
            Ok(resources) => {
                drop(container.insert("resources".to_owned(), Value::Object(resources)))
            }
            Err(why) => without_result = Some(why),
        }
    }
    let mut variables = Variables::new(taken(&mut container, "env"));
    let injected = json!({"name": IS_INJECTED, "value": "true"});
    variables.set(injected, |variable| variable["value"] == "true");
    for variable in transferred(sidecar, own) {
        variables.add(variable);
    }
    share(sidecar, own, &mut container, &mut variables);
    if is_hot {
        for (variable, prefix) in [
            (VERSION_VARIABLE, VERSION_PREFIX),
            (VERSION_ALT_VARIABLE, VERSION_ALT_PREFIX),
        ] {
            let path = format!("metadata.annotations['{prefix}{name}']");
            let wanted = json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}});
            // The apiserver adds its default to it.
            variables.set(wanted, |variable| {
                variable["valueFrom"]["fieldRef"]["fieldPath"] == *path
            });
        }
    }
    container.insert("env".to_owned(), Value::Array(variables.list));
    (Value::Object(container), without_result)
}

/// The variables of a container. A pod may have thousands of them, so a set holds the names.
struct Variables {
    list: Vec<Value>,
    names: BTreeSet<String>,
}

impl Variables {
    fn new(list: Vec<Value>) -> Self {
        let names = list.iter().map(named).map(str::to_owned).collect();
        Self { list, names }
    }

    /// Adds a variable if there is none of its name.
    fn add(&mut self, variable: &Value) {
        if self.names.insert(named(variable).to_owned()) {
            self.list.push(variable.clone());
        }
    }

    /// Makes a variable the only one of its name.
    fn set(&mut self, wanted: Value, is_it: impl Fn(&Value) -> bool) {
        let mut of_name = self
            .list
            .iter()
            .filter(|variable| variable["name"] == wanted["name"]);
        if !(of_name.next().is_some_and(is_it) && of_name.next().is_none()) {
            self.list
                .retain(|variable| variable["name"] != wanted["name"]);
            self.names.insert(named(&wanted).to_owned());
            self.list.push(wanted);
        }
    }
}

fn named(variable: &Value) -> &str {
    variable["name"].as_str().unwrap_or_default()
}

/// The transferred variables that the pod has.
fn transferred<'a>(
    sidecar: &'a SidecarContainer,
    own: &'a Own<'_>,
) -> impl Iterator<Item = &'a Value> {
    sidecar.transfer_env.iter().flat_map(move |of| {
        let field = of
            .source_container_name_from
            .as_ref()
            .and_then(|source| source.field_ref.as_ref());
        let source = match field {
            Some(field) => own.text(&field.field_path).unwrap_or_default(),
            None => &of.source_container_name,
        };
        let single = Some(&of.env_name).filter(|name| !name.is_empty());
        let names: BTreeSet<&String> = single.into_iter().chain(&of.env_names).collect();
        names
            .into_iter()
            .filter_map(move |name| own.variable(source, name))
    })
}

/// Adds mounts and devices of the pod's own containers, and the variables in the paths of those
/// volumes. Mounts at, below or above a path of the sidecar's own are left out. Otherwise the pod's
/// creator could put its own files in place of the sidecar's.
fn share(
    sidecar: &SidecarContainer,
    own: &Own<'_>,
    container: &mut Map<String, Value>,
    variables: &mut Variables,
) {
    let is_enabled =
        |policy: &ShareVolumePolicy| policy.type_ == Some(ShareVolumePolicyType::Enabled);
    let mut mounts = taken(container, "volumeMounts");
    let mut devices = taken(container, "volumeDevices");
    let path = |of: &Value, key: &str| of[key].as_str().map(cleaned);
    let mut kept: Vec<String> = mounts
        .iter()
        .filter_map(|mount| path(mount, "mountPath"))
        .collect();
    kept.extend(
        devices
            .iter()
            .filter_map(|device| path(device, "devicePath")),
    );
    let mut shared = BTreeSet::new();
    let mut is_free = |item: &Value, key: &str| {
        let Some(path) = path(item, key) else {
            return false;
        };
        !kept
            .iter()
            .any(|kept| kept.starts_with(&path) || path.starts_with(kept))
            && shared.insert(path)
    };
    let list = |of: &'_ Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    if is_enabled(&sidecar.share_volume_policy) {
        for of in &own.containers {
            let new: Vec<Value> = list(of, "volumeMounts")
                .into_iter()
                .filter(|mount| is_free(mount, "mountPath"))
                .collect();
            let mut used: BTreeSet<&str> = new
                .iter()
                .filter_map(|mount| mount["subPathExpr"].as_str())
                .flat_map(variables_in)
                .collect();
            // The pod's creator must not give a sidecar a position in the start order of
            // containers.
            used.remove(CONTAINER_PRIORITY);
            let known = own::variables(of);
            used.iter()
                .filter_map(|name| known.get(name))
                .for_each(|variable| variables.add(variable));
            mounts.extend(new);
        }
    }
    if sidecar
        .share_volume_device_policy
        .as_ref()
        .is_some_and(is_enabled)
    {
        let all = own
            .containers
            .iter()
            .flat_map(|of| list(of, "volumeDevices"));
        devices.extend(all.filter(|device| is_free(device, "devicePath")));
    }
    for (name, list) in [("volumeMounts", mounts), ("volumeDevices", devices)] {
        if !list.is_empty() {
            container.insert(name.to_owned(), Value::Array(list));
        }
    }
}

/// A path as the container runtime understands it, with a slash at its end, so that each path below
/// begins with it.
fn cleaned(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts
        .iter()
        .fold("/".to_owned(), |path, part| path + part + "/")
}

/// The variables in a text: `$(NAME)`, but not `$$(NAME)`, which means the text `$(NAME)`.
fn variables_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('$') {
        rest = match after.strip_prefix('(') {
            Some(after) => {
                // Without a closing bracket there is none further on, either.
                let Some((name, after)) = after.split_once(')') else {
                    break;
                };
                names.push(name);
                after
            }
            None => after.strip_prefix('$').unwrap_or(after),
        };
    }
    names
}

#[cfg(test)]
mod tests;
