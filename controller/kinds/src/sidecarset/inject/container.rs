//! One container of a SidecarSet, as a pod gets it.

use std::collections::BTreeSet;

use berth_api::v1beta1::sidecarset::{ShareVolumePolicy, ShareVolumePolicyType, SidecarContainer};
use serde_json::{Map, Value, json};

use super::super::names::{IS_INJECTED, VERSION_ALT_PREFIX, VERSION_ALT_VARIABLE, VERSION_PREFIX, VERSION_VARIABLE};
use super::super::resources;
use super::own::{self, Own};
use super::place::taken;

/// The container with this name, and with this image in place of its own. Where the resources
/// policy has no result, the container keeps the resources that the SidecarSet writes, and the text
/// says why: otherwise a pod could get rid of a sidecar by the numbers of its own containers.
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
            Ok(resources) => drop(container.insert("resources".to_owned(), Value::Object(resources))),
            Err(why) => without_result = Some(why),
        }
    }
    let mut variables = taken(&mut container, "env");
    let injected = json!({"name": IS_INJECTED, "value": "true"});
    set(&mut variables, injected, |variable| variable["value"] == "true");
    for variable in transferred(sidecar, own) {
        add(&mut variables, variable);
    }
    share(sidecar, own, &mut container, &mut variables);
    if is_hot {
        for (variable, prefix) in [(VERSION_VARIABLE, VERSION_PREFIX), (VERSION_ALT_VARIABLE, VERSION_ALT_PREFIX)] {
            let path = format!("metadata.annotations['{prefix}{name}']");
            let wanted = json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}});
            // The apiserver adds its default to it.
            set(&mut variables, wanted, |variable| variable["valueFrom"]["fieldRef"]["fieldPath"] == *path);
        }
    }
    container.insert("env".to_owned(), Value::Array(variables));
    (Value::Object(container), without_result)
}

/// Adds a variable where there is none of its name.
fn add(variables: &mut Vec<Value>, variable: &Value) {
    if !variables.iter().any(|other| other["name"] == variable["name"]) {
        variables.push(variable.clone());
    }
}

/// Makes a variable the only one of its name.
fn set(variables: &mut Vec<Value>, wanted: Value, is_it: impl Fn(&Value) -> bool) {
    let mut of_name = variables.iter().filter(|variable| variable["name"] == wanted["name"]);
    if !(of_name.next().is_some_and(is_it) && of_name.next().is_none()) {
        variables.retain(|variable| variable["name"] != wanted["name"]);
        variables.push(wanted);
    }
}

/// The variables that it takes over, as far as the pod has them.
fn transferred<'a>(sidecar: &'a SidecarContainer, own: &'a Own<'_>) -> impl Iterator<Item = &'a Value> {
    sidecar.transfer_env.iter().flat_map(move |of| {
        let field = of.source_container_name_from.as_ref().and_then(|source| source.field_ref.as_ref());
        let source = match field {
            Some(field) => own.text(&field.field_path).unwrap_or_default(),
            None => &of.source_container_name,
        };
        let single = Some(&of.env_name).filter(|name| !name.is_empty());
        let names: BTreeSet<&String> = single.into_iter().chain(&of.env_names).collect();
        names.into_iter().filter_map(move |name| own.variable(source, name))
    })
}

/// Adds mounts and devices of the pod's own containers at paths where the container has neither, and the variables that
/// the paths in those volumes are made of.
fn share(sidecar: &SidecarContainer, own: &Own<'_>, container: &mut Map<String, Value>, variables: &mut Vec<Value>) {
    let is_enabled = |policy: &ShareVolumePolicy| policy.type_ == Some(ShareVolumePolicyType::Enabled);
    let mut mounts = taken(container, "volumeMounts");
    let mut devices = taken(container, "volumeDevices");
    let path = |of: &Value, key: &str| of[key].as_str().map(str::to_owned);
    let mut paths: BTreeSet<String> = mounts.iter().filter_map(|mount| path(mount, "mountPath")).collect();
    paths.extend(devices.iter().filter_map(|device| path(device, "devicePath")));
    let lists = |key: &'static str| {
        own.containers.iter().flat_map(move |of| of[key].as_array().into_iter().flatten().map(move |item| (*of, item)))
    };
    if is_enabled(&sidecar.share_volume_policy) {
        for (of, mount) in lists("volumeMounts") {
            if !path(mount, "mountPath").is_some_and(|path| paths.insert(path)) {
                continue;
            }
            mounts.push(mount.clone());
            for name in variables_in(mount["subPathExpr"].as_str().unwrap_or_default()) {
                if let Some(variable) = own::variable(of, name) {
                    add(variables, variable);
                }
            }
        }
    }
    if sidecar.share_volume_device_policy.as_ref().is_some_and(is_enabled) {
        for (_, device) in lists("volumeDevices") {
            if path(device, "devicePath").is_some_and(|path| paths.insert(path)) {
                devices.push(device.clone());
            }
        }
    }
    for (name, list) in [("volumeMounts", mounts), ("volumeDevices", devices)] {
        if !list.is_empty() {
            container.insert(name.to_owned(), Value::Array(list));
        }
    }
}

/// The variables in a text: `$(NAME)`, but not `$$(NAME)`, which means the text `$(NAME)`.
fn variables_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('$') {
        rest = match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((name, after)) => {
                names.push(name);
                after
            }
            None => after.strip_prefix('$').unwrap_or(after),
        };
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_texts() {
        for (text, expected) in [
            ("", &[][..]),
            ("logs", &[]),
            ("$(A)", &["A"]),
            ("foo/$(ODD_NAME)/$(POD_NAME)", &["ODD_NAME", "POD_NAME"]),
            ("$$(A)/$(B)", &["B"]),
            ("$$$(A)", &["A"]),
            ("$(A", &[]),
            ("$A/$", &[]),
        ] {
            assert_eq!(variables_in(text), expected, "{text}");
        }
    }
}
