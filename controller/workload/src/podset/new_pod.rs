//! A new pod, from the template of a revision.

use serde_json::{Map, Value, json};

use super::{Scene, claim_template};
use crate::launch;
use crate::plan::{Action, Event, Step};
use crate::revision::Revision;

/// The whole pod, from the template of `revision`, which is read once for all pods. Labels of the workload's own kind are
/// added by it.
pub fn new_pod(scene: &Scene<'_>, revision: &Revision, template: &Value, name: &str) -> Value {
    let workload = &scene.workload;
    let mut metadata = metadata(
        template,
        name,
        workload.metadata.namespace.as_deref(),
        workload.reference(),
    );
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    for (key, value) in workload.labels.of(&revision.metadata.name) {
        labels[key] = json!(value);
    }
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    add_gates(&mut spec, workload.gates);
    claim_template::mount(workload, name, &mut spec);
    launch::hold_back(template, &mut spec, name);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The step that creates a pod of this name.
pub fn creation(actions: Vec<Action>, reason: String, name: &str) -> Step {
    Step {
        actions,
        reason,
        done: Some(Event {
            warning: false,
            reason: "SuccessfulCreate",
            message: format!("succeed to create pod {name}"),
        }),
        failed: Some(Event {
            warning: true,
            reason: "FailedCreate",
            message: format!("failed to create pod {name}"),
        }),
    }
}

/// The metadata of a new pod of any workload: the template's, with the pod's name, its namespace and its one owner.
pub fn metadata(
    template: &Value,
    name: &str,
    namespace: Option<&str>,
    owner: Value,
) -> Map<String, Value> {
    let mut metadata = template
        .get("metadata")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    // A revision can be edited by hand: what is no map holds no label and no annotation.
    metadata.retain(|key, value| {
        !matches!(key.as_str(), "labels" | "annotations") || value.is_object()
    });
    // What the server would refuse or overwrite.
    for key in ["creationTimestamp", "generateName"] {
        metadata.remove(key);
    }
    metadata.insert("name".into(), json!(name));
    metadata.insert("namespace".into(), json!(namespace));
    metadata.insert("ownerReferences".into(), json!([owner]));
    metadata
}

fn add_gates(spec: &mut Value, gates: &[&str]) {
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    let Some(list) = spec
        .entry("readinessGates")
        .or_insert_with(|| json!([]))
        .as_array_mut()
    else {
        return;
    };
    for gate in gates {
        if !list.iter().any(|g| g["conditionType"] == *gate) {
            list.push(json!({"conditionType": gate}));
        }
    }
}
