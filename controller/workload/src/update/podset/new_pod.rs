//! A new pod, from the template of a revision.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{WorkloadView, claim_template};
use crate::plan::{Action, Event, Step};
use crate::update::launch;
use crate::update::revision::Revision;

/// Letters and digits that cannot spell a word, as Kubernetes uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of an id.
const ID_LENGTH: usize = 5;

/// The whole pod, from the template of `revision`, which is parsed once for all pods. The
/// workload's kind adds its own labels.
pub fn new_pod(
    view: &WorkloadView<'_>,
    revision: &Revision,
    template: &Value,
    name: &str,
) -> Value {
    let workload = &view.workload;
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
        done: Some(Event::normal(
            "SuccessfulCreate",
            format!("succeed to create pod {name}"),
        )),
        failed: Some(Event::warning(
            "FailedCreate",
            format!("failed to create pod {name}"),
        )),
    }
}

/// The metadata of a new pod of any workload: the template's, with the pod's name, namespace and
/// owner.
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
    // The server would refuse or overwrite these fields.
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

/// Ids for names of pods, none of them taken, in an order that the seed gives.
pub fn fresh_ids(seed: u64, mut taken: BTreeSet<String>) -> impl Iterator<Item = String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut letter = move || char::from(ALPHABET[random.usize(..ALPHABET.len())]);
    std::iter::repeat_with(move || (0..ID_LENGTH).map(|_| letter()).collect::<String>())
        .filter(move |id| taken.insert(id.clone()))
}

#[cfg(test)]
mod tests;
