//! Faults of StatefulSets that neither the schema nor its rules can name.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::Value;

use crate::fields::ordinals::reserved;
use crate::name::is_dns_label;
use crate::validation::violations::{Violation, Violations, at, list, text};

/// The faults of a StatefulSet.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    crate::validation::annotations(object, &mut found);
    found.selector("spec.selector", at(object, "spec.selector"));
    found.priority(
        "spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy",
        object,
    );
    for (index, entry) in list(at(object, "spec.reserveOrdinals")) {
        // The schema refuses values that are neither a number nor a text.
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

/// Changes of the claim templates of a StatefulSet whose claims follow its templates, except of the
/// size, because no claim can follow them.
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
