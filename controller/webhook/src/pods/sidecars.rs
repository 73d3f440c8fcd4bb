//! Pods that SidecarSets select: an entry for each selector of namespaces and each failure policy,
//! with the selectors of pods in one expression.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::entry::{IS_NO_MIRROR, MOST_BYTES, NotYet, TIMEOUT, hash, none_of, pods_created};
use super::{labels, readiness_gate};
use crate::endpoint::Endpoint;

/// The first part of the path of the handler. Only the apiserver knows the last part, because the
/// answers contain what pods of other namespaces get.
pub const INJECT_PATH: &str = "/inject-sidecars";
/// The `generateName` of a pod by whose dry-run creation the controller sees that the webhook is
/// called and answers.
pub const PROBE: &str = "berth-injection-probe-";
/// The most entries: all of them are one object, and each contains the authorities' certificates.
const MOST_ENTRIES: usize = 200;
/// The most bytes of all entries, including the fixed part of each entry.
const MOST_OF_ALL: usize = 400_000;
const OF_ENTRY: usize = 4_000;
/// The most SidecarSets.
const MOST: usize = 2000;
/// The most values of a label in one term: at their greatest length they fill half of an
/// expression.
const MOST_VALUES: usize = 400;

/// The rule for one SidecarSet.
#[derive(Debug, Clone, PartialEq)]
pub struct SidecarRequest {
    /// Its name.
    pub name: String,
    /// Which pods.
    pub selector: LabelSelector,
    /// In which namespaces; in all where there is none.
    pub namespaces: Option<LabelSelector>,
    /// Whether no pod may be created without an answer.
    pub fails_closed: bool,
}

/// For which pods the webhook is called on behalf of SidecarSets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sidecars {
    /// By selector of namespaces, as JSON text, and failure policy: the pods.
    groups: BTreeMap<(String, bool), Selected>,
    /// Namespaces whose pods are left alone.
    protected: BTreeSet<String>,
    /// By name of a SidecarSet: a short digest of the rule.
    digests: BTreeMap<String, String>,
}

impl SidecarRequest {
    /// A digest. It stays the same as long as the rule asks for the same pods in the same way.
    fn letters(&self) -> String {
        hash(&json!([self.selector, self.namespaces, self.fails_closed]))
    }

    /// Its selector of namespaces, as JSON text.
    fn namespaces(&self) -> String {
        let namespaces = self
            .namespaces
            .as_ref()
            .and_then(|selector| serde_json::to_string(selector).ok());
        namespaces.unwrap_or_else(|| "{}".to_owned())
    }

    /// The first part of the names of its entries, if the pods of these namespaces are left alone.
    pub fn entry(&self, protected: &BTreeSet<String>) -> String {
        entry_of(
            &namespace_selector(&self.namespaces(), protected),
            self.fails_closed,
        )
    }
}

impl Sidecars {
    /// The entries for these rules, except for pods of the protected namespaces. A selector that is
    /// invalid selects nothing.
    pub fn new(
        requests: impl IntoIterator<Item = SidecarRequest>,
        protected: impl IntoIterator<Item = String>,
    ) -> Self {
        let (mut all, mut bytes) = (
            Self {
                protected: protected.into_iter().collect(),
                ..Self::default()
            },
            0,
        );
        for request in requests.into_iter().take(MOST) {
            // An expression that the apiserver refuses would stop the write of all entries.
            let expression =
                labels::expression(&request.selector).filter(|text| text.len() <= MOST_BYTES);
            let Some(expression) =
                expression.filter(|_| request.namespaces.as_ref().is_none_or(labels::is_sound))
            else {
                continue;
            };
            let group = (request.namespaces(), request.fails_closed);
            let is_new = !all.groups.contains_key(&group);
            let more = expression.len() + if is_new { group.0.len() + OF_ENTRY } else { 0 };
            if (is_new && all.groups.len() >= MOST_ENTRIES) || bytes + more > MOST_OF_ALL {
                continue;
            }
            bytes += more;
            all.groups
                .entry(group)
                .or_default()
                .add(&request.selector, expression);
            let letters = request.letters();
            all.digests.insert(request.name, letters);
        }
        all
    }

    /// Is the webhook called for the pods of this SidecarSet, by its selectors and failure policy
    /// as they are here?
    pub fn has(&self, request: &SidecarRequest) -> bool {
        self.digests.get(&request.name) == Some(&request.letters())
    }

    /// The intersection of the two, by the rules of the same SidecarSets.
    pub(super) fn within(mut self, other: &Self) -> Self {
        self.digests
            .retain(|name, letters| other.digests.get(name) == Some(letters));
        self
    }

    pub(super) fn webhooks(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Vec<Value> {
        let mut all = Vec::new();
        for ((namespaces, fails_closed), selected) in &self.groups {
            for (number, part) in parts(selected.expressions()).into_iter().enumerate() {
                let selector = namespace_selector(namespaces, &self.protected);
                let policy = if *fails_closed { "Fail" } else { "Ignore" };
                let name = format!("{}-{number}{DOMAIN}", entry_of(&selector, *fails_closed));
                all.push(entry(&name, policy, (selector, &part), endpoint, trust));
            }
        }
        all
    }
}

/// A selector of namespaces, as JSON text, without the protected ones.
fn namespace_selector(namespaces: &str, protected: &BTreeSet<String>) -> Value {
    let mut selector: Value = serde_json::from_str(namespaces).unwrap_or_else(|_| json!({}));
    let mut expressions = selector["matchExpressions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    expressions.extend(none_of(protected));
    selector["matchExpressions"] = expressions.into();
    selector
}

/// The first and the last part of the names of all our entries for SidecarSets.
const SIDECARS: &str = "sidecars-";
const DOMAIN: &str = ".pods.kruise.io";

/// The first part of the names of the entries for one selector of namespaces and failure policy. A
/// number follows.
fn entry_of(namespaces: &Value, fails_closed: bool) -> String {
    let word = if fails_closed { "fail" } else { "ignore" };
    format!("{SIDECARS}{word}-{}", hash(namespaces))
}

/// The first part of an entry's name; `None` if the entry is not for SidecarSets.
pub(super) fn entry_named(name: &str) -> Option<&str> {
    let (entry, _) = name.strip_suffix(DOMAIN)?.rsplit_once('-')?;
    entry.starts_with(SIDECARS).then_some(entry)
}

/// The pods of one entry. Most selectors ask for one label, and these are joined by label: the
/// apiserver compiles and evaluates an expression for each selector, but a list of values is one
/// look-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Selected {
    /// The values by label.
    by_label: BTreeMap<String, BTreeSet<String>>,
    /// The expressions of all other selectors.
    by_expression: BTreeSet<String>,
}

impl Selected {
    fn add(&mut self, selector: &LabelSelector, expression: String) {
        match labels::only_label(selector) {
            Some((key, values)) => self
                .by_label
                .entry(key.to_owned())
                .or_default()
                .extend(values.iter().cloned()),
            None => drop(self.by_expression.insert(expression)),
        }
    }

    fn expressions(&self) -> impl Iterator<Item = String> {
        let by_label = self.by_label.iter().flat_map(|(key, values)| {
            let values: Vec<_> = values.iter().collect();
            let terms = values
                .chunks(MOST_VALUES)
                .filter_map(|values| labels::is_in(key, values.iter().copied()));
            terms.collect::<Vec<_>>()
        });
        by_label.chain(self.by_expression.iter().cloned())
    }
}

/// Joins expressions, as many as fit into one.
fn parts(expressions: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for expression in expressions {
        match parts.last_mut() {
            Some(part) if part.len() + expression.len() + 6 <= MOST_BYTES => {
                part.push_str(" || ");
                part.push_str(&format!("({expression})"));
            }
            _ => parts.push(format!("({expression})")),
        }
    }
    parts
}

fn entry(
    name: &str,
    policy: &str,
    (namespaces, pods): (Value, &str),
    endpoint: &Endpoint,
    trust: (&str, &str),
) -> Value {
    json!({
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": policy,
        "timeoutSeconds": TIMEOUT, "matchPolicy": "Exact", "reinvocationPolicy": "Never", "namespaceSelector": namespaces,
        "rules": [pods_created()], "clientConfig": endpoint.secret_client_config(INJECT_PATH, trust),
        "matchConditions": [
            {"name": "is-no-mirror-pod", "expression": IS_NO_MIRROR},
            {"name": "is-selected", "expression": pods},
        ],
    })
}

/// Keeps what other writers have added to the selectors of an entry. An entry is named after its
/// own selector of namespaces, so anything else in the selector was added by another writer.
pub(super) fn keep_added(found: &Value, wanted: &mut Value) {
    let name = wanted["name"].as_str().unwrap_or_default();
    if ![SIDECARS, readiness_gate::NAME]
        .iter()
        .any(|ours| name.starts_with(ours))
    {
        return;
    }
    if found["objectSelector"]
        .as_object()
        .is_some_and(|selector| !selector.is_empty())
    {
        wanted["objectSelector"] = found["objectSelector"].clone();
    }
    let (found, wanted) = (
        &found["namespaceSelector"],
        &mut wanted["namespaceSelector"],
    );
    for (key, value) in found["matchLabels"].as_object().into_iter().flatten() {
        if wanted["matchLabels"][key].is_null() {
            wanted["matchLabels"][key] = value.clone();
        }
    }
    let added = found["matchExpressions"].as_array().into_iter().flatten();
    if let Some(expressions) = wanted["matchExpressions"].as_array_mut() {
        let missing: Vec<_> = added
            .filter(|added| !expressions.contains(added))
            .cloned()
            .collect();
        expressions.extend(missing);
    }
}

/// Knows all SidecarSets.
pub trait Injector: std::fmt::Debug + Send + Sync {
    /// The answer for a new pod of the namespace. `labels` are the labels of the namespace if they
    /// were read for it.
    ///
    /// # Errors
    /// The stores are not complete yet, or do not have the namespace.
    fn inject(
        &self,
        namespace: &str,
        labels: Option<&Labels>,
        pod: &Value,
    ) -> Result<Injected, Lacks>;

    /// The pod with the containers that it would get, for the answer to another question: `None` if
    /// the pod is refused, or its containers are not known.
    fn inject_ahead(&self, namespace: &str, pod: &Value) -> Option<Value> {
        self.inject(namespace, None, pod)
            .ok()
            .filter(|injected| injected.refused.is_none())?
            .pod
    }

    /// Faults of a SidecarSet that depend on other objects, each with field, value and remedy,
    /// except faults that it had before.
    fn faults(&self, set: &str, old: Option<&str>) -> Vec<String>;
}

/// The warning by which the answer about a [`PROBE`] says that the SidecarSet selects it and is not
/// paused.
pub fn applied_warning(set: &str) -> String {
    format!("SidecarSet {set} was asked")
}

/// The warning by which an answer says why a pod lacks the containers of the SidecarSet.
pub fn left_out_warning(set: &str, why: &str) -> String {
    format!("SidecarSet {set} is left out: {why}")
}

/// Whether warnings say that the SidecarSet was applied. Long warnings are cut.
pub fn says_applied(warnings: &[String], set: &str) -> bool {
    let expected = applied_warning(set);
    let is_it = |warning: &String| {
        *warning == expected || (warning.len() > set.len() && expected.starts_with(warning))
    };
    warnings.iter().any(is_it)
}

/// Why a pod lacks the containers of the SidecarSet, by these warnings.
pub fn says_left_out<'a>(warnings: &'a [String], set: &str) -> Option<&'a str> {
    let head = left_out_warning(set, "");
    warnings
        .iter()
        .find_map(|warning| warning.strip_prefix(&head))
}

/// The labels of a namespace.
pub type Labels = BTreeMap<String, String>;

/// The missing input of a decision about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacks {
    /// A store is not complete yet.
    Store(NotYet),
    /// The labels of the namespace, which came or changed a moment ago: the apiserver has them.
    Namespace,
}

/// The answer for a new pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Injected {
    /// The pod with its sidecars; `None` if it stays as it is.
    pub pod: Option<Value>,
    /// The warnings for its author.
    pub warnings: Vec<String>,
    /// Why it may not be created.
    pub refused: Option<String>,
}

#[cfg(test)]
mod tests;
