//! What neither the schema nor its rules can say: the syntax of labels and names.
//!
//! Everything else is validated by the apiserver itself, see [`crate::crd`].

mod sidecarset;
mod uniteddeployment;
mod violations;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::Value;

use crate::budget::{AnnotationFault, annotation_faults};
use crate::inplace::{prepull_on_join, wait_for_image};
use crate::name::is_dns_label;
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
pub use self::violations::{Violation, claim_templates, is_label_key, is_label_value};
use self::violations::{Violations, at, list, text};

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

#[cfg(test)]
mod tests;
