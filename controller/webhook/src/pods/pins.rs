//! Pods of workloads that have a PersistentPodState: the entries name the namespaces and the
//! workloads.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::names::label::NAMESPACE_NAME;
use serde_json::{Value, json};

use super::entry::{MOST_BYTES, NotYet, TIMEOUT, pods_created};
use crate::endpoint::Endpoint;

/// The first part of the path of the handler. Only the apiserver knows the last part, because the
/// answers contain where pods ran.
pub const PIN_PATH: &str = "/pin";

/// The most bytes of the names of all workloads, each with its namespace. The rest of the
/// configuration may have as many again.
const MOST_OF_ALL: usize = 300_000;

/// A workload whose pods are pinned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinnedWorkload {
    /// Its namespace.
    pub namespace: String,
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// For which pods the webhook is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Workloads of which no pod may be created without an answer.
    required: BTreeSet<PinnedWorkload>,
    /// Workloads whose pods are created even without an answer.
    preferred: BTreeSet<PinnedWorkload>,
}

impl Scope {
    /// From these workloads, each with whether its pods wait for an answer: as many as the size
    /// limit allows. Namespaces take turns, and in each the first ones come first.
    pub fn new(workloads: impl IntoIterator<Item = (PinnedWorkload, bool)>) -> Self {
        let mut by_turn: BTreeMap<(usize, PinnedWorkload), bool> = BTreeMap::new();
        let mut of_namespace: BTreeMap<String, usize> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (workload, waits) in workloads {
            if !seen.insert(workload.clone()) {
                continue;
            }
            let turn = of_namespace.entry(workload.namespace.clone()).or_default();
            *turn += 1;
            by_turn.insert((*turn, workload), waits);
        }
        let (mut scope, mut bytes) = (Self::default(), 0);
        for ((_, workload), waits) in by_turn {
            bytes += word(&workload).map_or(0, |word| word.len() + workload.namespace.len());
            if bytes > MOST_OF_ALL {
                break;
            }
            if waits {
                &mut scope.required
            } else {
                &mut scope.preferred
            }
            .insert(workload);
        }
        scope
    }

    /// Is the webhook called for the pods of this workload?
    pub fn has(&self, workload: &PinnedWorkload) -> bool {
        self.required.contains(workload) || self.preferred.contains(workload)
    }

    /// The workloads that are in the other, too, whether or not their pods wait for an answer.
    pub(super) fn within(mut self, other: &Self) -> Self {
        self.required.retain(|workload| other.has(workload));
        self.preferred.retain(|workload| other.has(workload));
        self
    }

    /// The entries for it, complete.
    pub(crate) fn webhooks(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Vec<Value> {
        let entries = |workloads: &BTreeSet<PinnedWorkload>, word: &str, policy: &str| {
            let parts = parts(workloads).into_iter().enumerate();
            parts
                .map(|(number, part)| {
                    entry(
                        &format!("pin-{word}-{number}.pods.kruise.io"),
                        policy,
                        &part,
                        endpoint,
                        trust,
                    )
                })
                .collect::<Vec<_>>()
        };
        let mut all = entries(&self.required, "required", "Fail");
        all.extend(entries(&self.preferred, "preferred", "Ignore"));
        all
    }
}

/// The name of a workload in an expression. None of its parts has a slash or a quote: the apiserver
/// accepts none in names, and a `targetRef` with one is left out.
fn word(workload: &PinnedWorkload) -> Option<String> {
    let PinnedWorkload {
        namespace,
        group,
        kind,
        name,
    } = workload;
    let is_plain = |part: &str| {
        part.chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
    };
    let word = format!("{namespace}/{group}/{kind}/{name}");
    [namespace, group, kind, name]
        .iter()
        .all(|part| is_plain(part))
        .then_some(word)
}

/// Groups of workloads whose names fit into one expression.
fn parts(workloads: &BTreeSet<PinnedWorkload>) -> Vec<Vec<(&str, String)>> {
    let mut parts: Vec<Vec<(&str, String)>> = Vec::new();
    let mut bytes = MOST_BYTES;
    for (namespace, word) in workloads
        .iter()
        .filter_map(|workload| Some((&*workload.namespace, word(workload)?)))
    {
        bytes += word.len() + 4;
        if bytes > MOST_BYTES {
            parts.push(Vec::new());
            bytes = word.len();
        }
        parts
            .last_mut()
            .into_iter()
            .for_each(|part| part.push((namespace, word.clone())));
    }
    parts
}

fn entry(
    name: &str,
    policy: &str,
    part: &[(&str, String)],
    endpoint: &Endpoint,
    trust: (&str, &str),
) -> Value {
    let namespaces: BTreeSet<_> = part.iter().map(|(namespace, _)| *namespace).collect();
    let words: Vec<_> = part.iter().map(|(_, word)| format!("'{word}'")).collect();
    let is_owned = format!(
        "object.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) && \
         (request.namespace + '/' + (owner.apiVersion.contains('/') ? owner.apiVersion.split('/')[0] : '') + '/' + owner.kind + '/' + owner.name) in [{}])",
        words.join(", ")
    );
    let selector = json!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "In", "values": namespaces}]});
    json!({
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": policy,
        "timeoutSeconds": TIMEOUT, "matchPolicy": "Exact", "reinvocationPolicy": "Never", "namespaceSelector": selector,
        "rules": [pods_created()], "matchConditions": [{"name": "is-of-a-recorded-workload", "expression": is_owned}],
        "clientConfig": endpoint.secret_client_config(PIN_PATH, trust),
    })
}

/// Knows all PersistentPodStates.
pub trait Records: std::fmt::Debug + Send + Sync {
    /// The name of the PersistentPodState of this workload (API version, kind, name), if one is
    /// known.
    fn persistent_pod_state(&self, namespace: &str, workload: (&str, &str, &str))
    -> Option<String>;

    /// Adds to a new pod of the namespace the node that its record says; `false` if there is
    /// nothing to add. The argument has only these parts of the pod: metadata (name, annotations,
    /// ownerReferences) and of the spec nodeSelector and affinity.
    ///
    /// # Errors
    /// The stores are not complete yet.
    fn pin(&self, namespace: &str, pod: &mut Value) -> Result<bool, NotYet>;
}

#[cfg(test)]
mod tests;
