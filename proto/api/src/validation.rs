//! What neither the schema nor its rules can say: the syntax of labels and names.
//!
//! Everything else is validated by the apiserver itself, see [`crate::crd`].

mod sidecarset;
mod uniteddeployment;

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::budget::{AnnotationFault, annotation_faults};
use crate::inplace::{prepull_on_join, wait_for_image};
use crate::name::{is_dns_label, is_dns_subdomain};
use crate::names::annotation::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM,
    IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS, INPLACE_UPDATE_WAIT_FOR_IMAGE, PREPULL_ON_JOIN,
    WAIT_AFTER_NODE,
};
use crate::ordinals::reserved;
use crate::v1beta1::broadcastjob::wait_after_node;
use crate::v1beta1::podunavailablebudget::ProtectedOperation;

pub(crate) use self::sidecarset::{base_changes, of_sidecar_set};
pub use self::uniteddeployment::ignored_fields;
pub(crate) use self::uniteddeployment::of_united_deployment;

/// One fault of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, as `kubectl explain` has it, with indexes and keys.
    pub field: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it, and the remedy.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: Invalid value: {:?}: {}",
            self.field, self.value, self.message
        )
    }
}

/// What a StatefulSet whose claims follow its templates changes of these, beside the size: no claim can follow that.
pub(crate) fn claim_changes(object: &Value, old: &Value) -> Vec<Violation> {
    let is_rolling = |set: &Value| {
        at(set, "spec.volumeClaimUpdateStrategy.type").and_then(Value::as_str)
            == Some("OnPodRollingUpdate")
    };
    let mut found = Violations(Vec::new());
    if !is_rolling(object) || !is_rolling(old) {
        return found.0;
    }
    let name = |claim: &Value| {
        claim
            .get("metadata")
            .map_or("", |metadata| text(metadata, "name"))
            .to_owned()
    };
    let names = |set: &Value| -> Vec<String> {
        list(at(set, "spec.volumeClaimTemplates"))
            .map(|(_, claim)| name(claim))
            .collect()
    };
    let (before, after) = (names(old), names(object));
    if before.len() != after.len() || !after.iter().all(|name| before.contains(name)) {
        let message = "cannot be more, fewer or others with volumeClaimUpdateStrategy OnPodRollingUpdate, for the pods that there are \
                       have a claim from each: take the change back, or set the type to OnDelete";
        found.add("spec.volumeClaimTemplates", &after.join(","), message);
        return found.0;
    }
    for (index, claim) in list(at(object, "spec.volumeClaimTemplates")) {
        let earlier = list(at(old, "spec.volumeClaimTemplates"))
            .find(|(_, other)| name(other) == name(claim));
        for field in ["storageClassName", "accessModes", "volumeMode"] {
            let of = |claim: &Value| at(claim, "spec").and_then(|spec| spec.get(field)).cloned();
            let (before, after) = (earlier.and_then(|(_, claim)| of(claim)), of(claim));
            if before != after {
                let message = "cannot be changed with volumeClaimUpdateStrategy OnPodRollingUpdate, for no claim can change it: \
                               take the change back, or set the type to OnDelete";
                let value = after.map(|value| value.to_string()).unwrap_or_default();
                found.add(
                    &format!("spec.volumeClaimTemplates[{index}].spec.{field}"),
                    value.trim_matches('"'),
                    message,
                );
            }
        }
    }
    found.0
}

/// Annotations that mean something, and those of v1alpha1 that a conversion could not turn into fields.
fn annotations(object: &Value, found: &mut Violations) {
    let annotations = at(object, "metadata.annotations").and_then(Value::as_object);
    // CloneSets have a field for it, which is a number.
    let counts_pods = text(object, "kind") == "CloneSet";
    for (key, value) in annotations.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let problem = match key.as_str() {
            INPLACE_UPDATE_WAIT_FOR_IMAGE => wait_for_image(value).err(),
            PREPULL_ON_JOIN => prepull_on_join(value).err(),
            IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS if counts_pods => no_number(value),
            IMAGE_PREDOWNLOAD_PARALLELISM | IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS => {
                (!is_number(value.strip_suffix('%').unwrap_or(value))).then_some(
                    "is neither a number from 0 nor a percentage such as 25%: correct or remove it",
                )
            }
            IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS => no_number(value),
            _ => None,
        };
        if let Some(problem) = problem {
            found.add(&format!("metadata.annotations[{key}]"), value, problem);
        }
    }
}

fn no_number(text: &str) -> Option<&'static str> {
    (!is_number(text)).then_some("is no number from 0: correct or remove it")
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i32>().is_ok()
}

/// The faults of a BroadcastJob.
pub(crate) fn of_broadcast_job(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    let wait = at(object, "metadata.annotations")
        .map_or("", |annotations| text(annotations, WAIT_AFTER_NODE));
    if !wait.is_empty()
        && let Err(problem) = wait_after_node(wait)
    {
        found.add(
            &format!("metadata.annotations[{WAIT_AFTER_NODE}]"),
            wait,
            problem,
        );
    }
    found.0
}

/// The faults of a CloneSet.
pub(crate) fn of_clone_set(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    annotations(object, &mut found);
    found.selector("spec.selector", at(object, "spec.selector"));
    found.names(
        "spec.scaleStrategy.podsToDelete",
        at(object, "spec.scaleStrategy.podsToDelete"),
    );
    for update in ["spec.updateStrategy", "spec.updateStrategy.rollingUpdate"] {
        found.priority(&format!("{update}.priorityStrategy"), object);
        found.scatter(&format!("{update}.scatterStrategy"), object, None);
    }
    found.hooks(object);
    found.claims(object);
    found.0
}

/// The faults of a PersistentPodState.
pub(crate) fn of_persistent_pod_state(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    let mut keys = |term: Option<&Value>, field: &str| {
        for name in ["keys", "nodeTopologyKeys"] {
            for (index, key) in list(term.and_then(|term| term.get(name))) {
                found.key(
                    &format!("{field}.{name}[{index}]"),
                    key.as_str().unwrap_or_default(),
                );
            }
        }
    };
    keys(
        at(object, "spec.requiredPersistentTopology"),
        "spec.requiredPersistentTopology",
    );
    for (index, term) in list(at(object, "spec.preferredPersistentTopology")) {
        keys(
            term.get("preference"),
            &format!("spec.preferredPersistentTopology[{index}].preference"),
        );
    }
    for (index, annotation) in list(at(object, "spec.persistentPodAnnotations")) {
        found.key(
            &format!("spec.persistentPodAnnotations[{index}].key"),
            text(annotation, "key"),
        );
    }
    found.0
}

/// The faults of a PodUnavailableBudget.
pub(crate) fn of_pod_unavailable_budget(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    for field in ["spec.selector", "spec.ignoredPodSelector"] {
        found.selector(field, at(object, field));
    }
    let said =
        |key: &str| at(object, "metadata.annotations").and_then(|all| all.get(key)?.as_str());
    let field = |name: &str| at(object, &format!("spec.{name}"));
    let protects = field("protectOperations")
        .map(|value| Vec::<ProtectedOperation>::deserialize(value).unwrap_or_default());
    let total = field("protectTotalReplicas").and_then(Value::as_i64);
    for AnnotationFault {
        key,
        value,
        problem,
    } in annotation_faults(said, protects.as_deref(), total)
    {
        found.add(&format!("metadata.annotations[{key}]"), value, problem);
    }
    found.0
}

/// The faults of a DistributedPodDisruptionBudget.
pub(crate) fn of_distributed_pod_disruption_budget(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    found.selector("spec.selector", at(object, "spec.selector"));
    let metadata = |name| {
        at(object, &format!("metadata.{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (namespace, name) = (metadata("namespace"), metadata("name"));
    for (index, member) in list(at(object, "spec.federation")) {
        let is_of_its_kind = ["", "DistributedPodDisruptionBudget"].contains(&text(member, "kind"));
        let is_here = text(member, "cluster").is_empty();
        if is_here
            && is_of_its_kind
            && text(member, "namespace") == namespace
            && text(member, "name") == name
        {
            let message = "is the budget itself: remove it, for its own pods count anyway";
            found.add(&format!("spec.federation[{index}].name"), name, message);
        }
    }
    found.0
}

/// The faults of a DaemonSet.
pub(crate) fn of_daemon_set(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    annotations(object, &mut found);
    found.selector("spec.selector", at(object, "spec.selector"));
    let nodes = "spec.updateStrategy.rollingUpdate.selector";
    found.selector(nodes, at(object, nodes));
    found.hooks(object);
    found.0
}

/// The faults of a StatefulSet.
pub(crate) fn of_stateful_set(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    annotations(object, &mut found);
    found.selector("spec.selector", at(object, "spec.selector"));
    found.priority(
        "spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy",
        object,
    );
    for (index, entry) in list(at(object, "spec.reserveOrdinals")) {
        // What is neither a number nor a text is the schema's matter.
        if let Ok(read) = IntOrString::deserialize(entry)
            && let Err(problem) = reserved(&read)
        {
            let value = entry
                .as_str()
                .map_or_else(|| entry.to_string(), str::to_owned);
            found.add(&format!("spec.reserveOrdinals[{index}]"), &value, problem);
        }
    }
    let service = at(object, "spec.serviceName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !service.is_empty() && !is_dns_label(service) {
        let message = "is no Service's name: use at most 63 of a-z, 0-9 and -, with a letter or digit at both ends";
        found.add("spec.serviceName", service, message);
    }
    found.hooks(object);
    found.claims(object);
    found.0
}

/// The faults of a job that pulls one image, or many.
pub(crate) fn of_pull_job(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    for selector in ["spec.selector", "spec.podSelector"] {
        found.selector(selector, at(object, selector));
    }
    found.names("spec.selector.names", at(object, "spec.selector.names"));
    found.names("spec.pullSecrets", at(object, "spec.pullSecrets"));
    found.0
}

/// The faults of claim templates of these names: they are volumes' names, and each is there once.
pub fn claim_templates<'a>(claims: impl IntoIterator<Item = &'a str>) -> Vec<Violation> {
    let (mut found, mut names) = (Violations(Vec::new()), BTreeSet::new());
    for (index, name) in claims.into_iter().enumerate() {
        let field = format!("spec.volumeClaimTemplates[{index}].metadata.name");
        if !is_dns_label(name) {
            found.add(&field, name, "pods mount the claim by this name: use at most 63 of a-z, 0-9 and -, with a letter or digit at both ends");
        } else if !names.insert(name) {
            found.add(
                &field,
                name,
                "another claim template has this name: use another",
            );
        }
    }
    found.0
}

struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, field: &str, value: &str, message: &str) {
        self.0.push(Violation {
            field: field.to_owned(),
            value: value.to_owned(),
            message: message.to_owned(),
        });
    }

    fn selector(&mut self, field: &str, selector: Option<&Value>) {
        let Some(selector) = selector else { return };
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            self.key(&format!("{field}.matchLabels"), key);
            self.value(
                &format!("{field}.matchLabels[{key}]"),
                value.as_str().unwrap_or_default(),
            );
        }
        for (index, expression) in list(selector.get("matchExpressions")) {
            self.key(
                &format!("{field}.matchExpressions[{index}].key"),
                text(expression, "key"),
            );
            for (at, value) in list(expression.get("values")) {
                let field = format!("{field}.matchExpressions[{index}].values[{at}]");
                self.value(&field, value.as_str().unwrap_or_default());
            }
        }
    }

    fn key(&mut self, field: &str, key: &str) {
        if !is_label_key(key) {
            let message = "is no label key: use a name of at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends; \
                           a DNS name and / may stand before it";
            self.add(field, key, message);
        }
    }

    fn value(&mut self, field: &str, value: &str) {
        if !is_label_value(value) {
            let message = "is no label value: use at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends, or nothing";
            self.add(field, value, message);
        }
    }

    fn priority(&mut self, strategy: &str, object: &Value) {
        for (index, term) in list(at(object, &format!("{strategy}.weightPriority"))) {
            let field = format!("{strategy}.weightPriority[{index}].matchSelector");
            self.selector(&field, term.get("matchSelector"));
        }
        for (index, term) in list(at(object, &format!("{strategy}.orderPriority"))) {
            self.key(
                &format!("{strategy}.orderPriority[{index}].orderedKey"),
                text(term, "orderedKey"),
            );
        }
    }

    /// `any` is the value that stands for each.
    fn scatter(&mut self, strategy: &str, object: &Value, any: Option<&str>) {
        for (index, term) in list(at(object, strategy)) {
            self.key(&format!("{strategy}[{index}].key"), text(term, "key"));
            let value = text(term, "value");
            if Some(value) != any {
                self.value(&format!("{strategy}[{index}].value"), value);
            }
        }
    }

    fn hooks(&mut self, object: &Value) {
        for hook in ["preDelete", "inPlaceUpdate", "preNormal"] {
            let field = format!("spec.lifecycle.{hook}.labelsHandler");
            for (key, value) in at(object, &field)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                self.key(&field, key);
                self.value(
                    &format!("{field}[{key}]"),
                    value.as_str().unwrap_or_default(),
                );
            }
        }
    }

    fn claims(&mut self, object: &Value) {
        let claims = list(at(object, "spec.volumeClaimTemplates")).map(|(_, claim)| claim);
        let names = claims.map(|claim| {
            claim
                .get("metadata")
                .map_or("", |metadata| text(metadata, "name"))
        });
        self.0.extend(claim_templates(names));
    }

    fn names(&mut self, field: &str, names: Option<&Value>) {
        for (index, name) in list(names) {
            let name = name.as_str().unwrap_or_default();
            if !is_dns_subdomain(name) {
                let message = "is no object's name: use at most 253 of a-z, 0-9, - and ., with a letter or digit at both ends of each part";
                self.add(&format!("{field}[{index}]"), name, message);
            }
        }
    }
}

fn at<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    field
        .split('.')
        .try_fold(object, |value, name| value.get(name))
}

fn list(value: Option<&Value>) -> impl Iterator<Item = (usize, &Value)> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value
        .as_object()
        .and_then(|map: &Map<_, _>| map.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether a text is a label's key.
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    is_label_name(name) && prefix.is_none_or(is_dns_subdomain)
}

/// Whether a text is a label's value.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

/// A label's value, or its key without prefix.
fn is_label_name(name: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= 63
        && ends(name.bytes().next())
        && ends(name.bytes().last())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests;
