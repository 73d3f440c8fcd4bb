//! The lines of `set env --list`, in kubectl's words.

use berth_workload::objects::resource::Resource;
use serde_json::Value;

use crate::objects::{items, name, text};
use crate::pod_spec;

/// The variables of the containers of an object.
///
/// # Errors
/// The kind has no pods, or there is no such container.
pub(super) fn lines(
    resource: Resource,
    object: &Value,
    containers: &[String],
) -> anyhow::Result<Vec<String>> {
    let at = pod_spec::pointer(resource, object)?;
    let mut spec = object.pointer(&at).cloned().unwrap_or_default();
    let patterns: Vec<_> = containers.iter().map(String::as_str).collect();
    let mut lines = Vec::new();
    for container in pod_spec::containers(&mut spec, &patterns)? {
        let container = Value::Object(container.clone());
        lines.push(format!(
            "# {} {}, container {}",
            resource.kind,
            name(object),
            text(&container, "/name")
        ));
        lines.extend(items(&container, "/env").map(variable));
    }
    Ok(lines)
}

/// A variable, or where its value comes from.
fn variable(variable: &Value) -> String {
    let (name, from) = (text(variable, "/name"), &variable["valueFrom"]);
    let key = |of: &str| {
        let reference = &from[of];
        (text(reference, "/name"), text(reference, "/key"))
    };
    if from["secretKeyRef"].is_object() {
        let (object, key) = key("secretKeyRef");
        return format!("# {name} from secret {object}, key {key}");
    }
    if from["configMapKeyRef"].is_object() {
        let (object, key) = key("configMapKeyRef");
        return format!("# {name} from configmap {object}, key {key}");
    }
    let (field, amount) = (
        text(from, "/fieldRef/fieldPath"),
        text(from, "/resourceFieldRef/resource"),
    );
    match (field, amount) {
        ("", "") if from.is_object() => format!("# {name} from another source"),
        ("", "") => format!("{name}={}", text(variable, "/value")),
        ("", amount) => format!("# {name} from resource field {amount}"),
        (field, _) => format!("# {name} from field path {field}"),
    }
}

#[cfg(test)]
mod tests;
