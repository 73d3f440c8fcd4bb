//! Resources of containers that change in place, through the pod's `resize` subresource.
//!
//! The subresource accepts only resources, so that a resize needs a write of its own. It follows
//! the patch with the record, and the record has the wanted resources. Between the two writes, the
//! resources that the pod's spec lacks are still to be written. The kubelet then applies the
//! resize, defers it, or refuses it. Its conditions and the resources of the container statuses say
//! which.

mod progress;

use serde_json::Value;

use crate::objects::patch::pod::KINDS;
use crate::objects::pod::Pod;
use crate::objects::pod::resources::{Resources, thousandths};
use crate::objects::quantity;

pub use crate::objects::patch::pod::{Resize, Resizes};
pub use progress::{INFEASIBLE, is_awaited, is_over, refused, refused_by_server};
pub(super) use progress::{is_out_of_reach, pending};

/// The resources that can change in place.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Whether resources may change in place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ability {
    /// The feature gate is off.
    #[default]
    Off,
    /// The feature gate is on, but the cluster has no `pods/resize`.
    Missing,
    /// The feature gate is on, and the cluster has `pods/resize`.
    On,
}

/// Compares the resources of a container in two templates. Changes that are possible in place go
/// into `resizes`, the other fields into `fields`.
pub(super) fn compare(
    (list, name): (&str, &str),
    old: &Value,
    new: &Value,
    resizes: &mut Resizes,
    fields: &mut Vec<String>,
) {
    let mut resize = Resize::default();
    for (kind, resource) in amount_names(old, new) {
        let (before, after) = (amount(old, &kind, &resource), amount(new, &kind, &resource));
        if same(before.as_deref(), after.as_deref()) {
            continue;
        }
        match after.filter(|after| RESOURCES.contains(&&*resource) && thousandths(after).is_some())
        {
            Some(after) => {
                resize.restarts |= restarts(new, &resource);
                resize.of_kind(&kind).insert(resource, after);
            }
            None => fields.push(format!(
                "template.spec.{list}[{name}].resources.{kind}.{resource}"
            )),
        }
    }
    let others = |value: &Value| {
        let mut others = value["resources"].as_object().cloned().unwrap_or_default();
        others.retain(|key, value| !KINDS.contains(&&**key) && !value.is_null());
        others
    };
    if others(old) != others(new) {
        fields.push(format!("template.spec.{list}[{name}].resources"));
    }
    if resize != Resize::default() {
        resize.sidecar = list == "initContainers";
        resizes.insert(name.to_owned(), resize);
    }
}

/// Why resources can never change in place between these templates, independent of their amounts.
pub(super) fn obstacle(ability: Ability, old: &Value, new: &Value) -> Option<String> {
    if ability == Ability::Missing {
        return Some("this cluster has no pods/resize; Kubernetes 1.33 and later do".to_owned());
    }
    if !new["spec"]["resources"].is_null() {
        return Some(
            "a pod with resources of its own, spec.resources, cannot be resized".to_owned(),
        );
    }
    if new["spec"]["os"]["name"] == "windows" {
        return Some("a Windows pod cannot be resized".to_owned());
    }
    let (before, after) = (quality(&old["spec"]), quality(&new["spec"]));
    (before != after)
        .then(|| format!("its quality of service cannot change from {before} to {after}"))
}

/// The names of the amounts that either container has, in order.
fn amount_names(old: &Value, new: &Value) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (kind, container) in KINDS.iter().flat_map(|kind| [(*kind, old), (*kind, new)]) {
        let given = container["resources"][kind]
            .as_object()
            .into_iter()
            .flatten();
        names.extend(given.map(|(resource, _)| (kind.to_owned(), resource.clone())));
        // A limit without a request is also the request.
        let limited = RESOURCES.iter().filter(|resource| {
            kind == "limits" && !container["resources"][kind][**resource].is_null()
        });
        names.extend(limited.map(|resource| (KINDS[1].to_owned(), (*resource).to_owned())));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// An amount with the server's defaults: a missing request equals the limit.
fn amount(container: &Value, kind: &str, resource: &str) -> Option<String> {
    let given = |kind: &str| match &container["resources"][kind][resource] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    given(kind).or_else(|| (kind == "requests").then(|| given("limits")).flatten())
}

fn same(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            a == b || (thousandths(a).is_some() && thousandths(a) == thousandths(b))
        }
        (a, b) => a == b,
    }
}

fn restarts(container: &Value, resource: &str) -> bool {
    let policies = container["resizePolicy"].as_array().into_iter().flatten();
    policies.into_iter().any(|policy| {
        policy["resourceName"] == resource && policy["restartPolicy"] == "RestartContainer"
    })
}

/// The fields of a pod with its containers and with their statuses.
const CONTAINERS: [(&str, &str); 2] = [
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
];

/// The containers that restart when the pod changes from `old` to `new`. A `resizePolicy` applies
/// to one resource, to its request and its limit. Of init containers, only the ones that keep
/// running are resized. A kubelet compares with the resources that a container really has. After a
/// deferred resize they differ from the old spec, and the new resize includes them.
pub fn restarted<'a>(old: &Value, new: &'a Value) -> Vec<&'a str> {
    let mut names: Vec<&'a str> = Vec::new();
    for (list, statuses) in CONTAINERS {
        let all = new["spec"][list].as_array().into_iter().flatten();
        for container in
            all.filter(|container| list == "containers" || container["restartPolicy"] == "Always")
        {
            let name = &container["name"];
            let before = named(&old["spec"][list], name);
            let given = named(&old["status"][statuses], name)
                .filter(|status| status["resources"].is_object());
            let changes = |resource: &str| {
                // A container without limits of its own has the pod's limits.
                differ(&old["spec"], &new["spec"], resource)
                    || before.is_none_or(|before| differ(before, container, resource))
                    || given.is_some_and(|given| differ(given, container, resource))
            };
            if RESOURCES
                .iter()
                .any(|resource| restarts(container, resource) && changes(resource))
            {
                names.extend(name.as_str());
            }
        }
    }
    names
}

fn named<'a>(list: &'a Value, name: &Value) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == *name)
}

/// Whether the request or the limit of a resource differs. A value that is no quantity differs from
/// every other value.
fn differ(old: &Value, new: &Value, resource: &str) -> bool {
    KINDS.iter().any(|kind| {
        let (old, new) = (amount(old, kind, resource), amount(new, kind, resource));
        let exact = |amount: &Option<String>| amount.as_deref().and_then(quantity::thousandths);
        old != new && (exact(&old).is_none() || exact(&old) != exact(&new))
    })
}

/// The quality of service class of a pod with this spec, by Kubernetes' rules.
fn quality(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"].into_iter();
    let containers: Vec<_> = containers
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
        .collect();
    let value = |container: &Value, kind: &str, resource: &str| {
        amount(container, kind, resource)
            .as_deref()
            .and_then(thousandths)
            .unwrap_or_default()
    };
    let any = |c: &&Value| {
        RESOURCES
            .iter()
            .any(|resource| KINDS.iter().any(|kind| value(c, kind, resource) != 0))
    };
    let full = |c: &&Value| {
        let met = |resource: &&str| {
            let limit = value(c, "limits", resource);
            limit != 0 && limit == value(c, "requests", resource)
        };
        RESOURCES.iter().all(met)
    };
    if !containers.iter().any(any) {
        return "BestEffort";
    }
    if containers.iter().all(full) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The wanted resources after an update: the unproven ones of the update before, overridden by the
/// ones of this update.
pub(super) fn joined(unproven: Option<&Resizes>, now: &Resizes) -> Resizes {
    let mut all = unproven.cloned().unwrap_or_default();
    for (name, resize) in now {
        let wanted = all.entry(name.clone()).or_default();
        for (kind, resource, quantity) in resize.amounts() {
            wanted
                .of_kind(kind)
                .insert(resource.to_owned(), quantity.to_owned());
        }
    }
    all
}

/// The part of `wanted` that the pod's spec does not have yet.
pub(super) fn unwritten(pod: &Pod, wanted: &Resizes) -> Resizes {
    let none = Resources::default();
    let mut missing = Resizes::new();
    for (name, resize) in wanted {
        let Some(container) = pod.container(name) else {
            continue;
        };
        let has = container.resources.as_deref().unwrap_or(&none);
        let sidecar = pod
            .spec
            .native_sidecars
            .iter()
            .any(|sidecar| *sidecar.name == **name);
        let lacks = resize.amounts().filter(|(kind, resource, quantity)| {
            thousandths(quantity).is_some_and(|wanted| wanted != has.amount(kind, resource))
        });
        for (kind, resource, quantity) in lacks {
            let missing = missing.entry(name.clone()).or_default();
            missing
                .of_kind(kind)
                .insert(resource.to_owned(), quantity.to_owned());
            missing.sidecar = sidecar;
        }
    }
    missing
}

#[cfg(test)]
mod tests;
