//! A new pod of a CloneSet.

use std::collections::BTreeSet;

use berth_api::names::label;
use serde_json::{Map, Value, json};

use super::{Snapshot, claims, launch};
use crate::gates::{Gate, Gates};
use crate::pod::gates;
use crate::revision::{REVISION_LABEL, Revision, TEMPLATE_HASH_LABEL, short};

/// Letters and digits that cannot spell a word, as Kubernetes uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of an instance id.
const ID_LENGTH: usize = 5;

/// Instance ids that no pod and no claim has, in an order that the seed gives.
pub(super) fn fresh_ids(snapshot: &Snapshot) -> impl Iterator<Item = String> + use<> {
    let pods = snapshot.pods.iter().map(|pod| &pod.metadata);
    let all = pods.chain(snapshot.claims.iter().map(|claim| &claim.metadata));
    let mut taken: BTreeSet<_> = all.map(|metadata| claims::instance(metadata).to_owned()).collect();
    let mut state = snapshot.seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        id_of(mixed(state))
    })
    .filter(move |id| taken.insert(id.clone()))
}

/// The finaliser of `splitmix64`: neighbouring inputs give unrelated outputs.
fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn id_of(mut number: u64) -> String {
    let base = ALPHABET.len() as u64;
    let letters = std::iter::repeat_with(move || {
        let letter = ALPHABET[usize::try_from(number % base).unwrap_or(0)];
        number /= base;
        char::from(letter)
    });
    letters.take(ID_LENGTH).collect()
}

/// The whole pod, from the template of `revision`, which is read once for all pods.
pub(super) fn new_pod(snapshot: &Snapshot, revision: &Revision, template: &Value, id: &str) -> Value {
    let set = &snapshot.set.metadata;
    let mut metadata = match template.get("metadata") {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::new(),
    };
    // A revision can be edited by hand: what is no map holds no label and no annotation.
    metadata.retain(|key, value| !matches!(key.as_str(), "labels" | "annotations") || value.is_object());
    // What the server would refuse or overwrite.
    for key in ["creationTimestamp", "name", "generateName"] {
        metadata.remove(key);
    }
    let name = format!("{}-{id}", set.name.as_deref().unwrap_or_default());
    metadata.insert("name".into(), json!(name));
    metadata.insert("namespace".into(), json!(set.namespace));
    metadata.insert("ownerReferences".into(), json!([owner(snapshot)]));
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels[REVISION_LABEL] = json!(revision_label(snapshot.gates, &revision.metadata.name));
    labels[TEMPLATE_HASH_LABEL] = json!(short(&revision.metadata.name));
    labels[label::CLONESET_INSTANCE_ID] = json!(id);
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    add_gates(&mut spec);
    claims::mount(snapshot, id, &mut spec);
    launch::hold_back(template, &mut spec, &name);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// The owner reference of pods and revisions.
pub(super) fn owner(snapshot: &Snapshot) -> Value {
    let set = &snapshot.set.metadata;
    json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "name": set.name,
        "uid": set.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn add_gates(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    let Some(list) = spec.entry("readinessGates").or_insert_with(|| json!([])).as_array_mut() else { return };
    for gate in gates::OF_NEW_PODS {
        if !list.iter().any(|g| g["conditionType"] == gate) {
            list.push(json!({"conditionType": gate}));
        }
    }
}

/// What the revision label of a pod holds.
pub(super) fn revision_label(gates: Gates, revision: &str) -> &str {
    if gates.has(Gate::CloneSetShortHash) { short(revision) } else { revision }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `splitmix64` from the seed 1234567, as published with it.
    #[test]
    fn ids_come_from_splitmix64() {
        let mut state = 1_234_567_u64;
        let numbers = std::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed(state)
        });
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers.take(3).collect::<Vec<_>>(), expected);
    }
}
