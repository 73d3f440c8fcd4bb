//! Pods that are taken out of service: in namespaces that have budgets, the webhook decides on each
//! delete, eviction and change of a pod before the apiserver carries it out.
//!
//! The apiserver does not call the webhook for pods that no budget can hold: pods that end already
//! or have ended, static pods of a kubelet, and pods that no budget protects.

use std::collections::BTreeSet;
use std::fmt;

use berth_api::names::annotation::{MIRROR_POD, PUB_NO_PROTECT};
use berth_api::names::label::{NAMESPACE_NAME, UNAVAILABLE_POD_PREFIX};
use berth_workload::budget::disruption::{DISRUPTION_TARGET, KUBERNETES_SHARED, PASSING};
use berth_workload::objects::pod::Pod;
use berth_workload::update::inplace::resize;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::entry::{NotYet, TIMEOUT};
use crate::endpoint::Endpoint;

/// The ValidatingWebhookConfiguration of the chart.
pub const DISRUPTIONS: &str = "kruise-budget-webhook-configuration";
/// The first part of the path of the handler. Only the apiserver knows the last part.
pub const DISRUPT_PATH: &str = "/disrupt-pod";

/// The first part of the path of the handler that binds evictions to the pods that they name. Only
/// the apiserver knows the last part, because the answers contain the uids of pods.
pub const EVICT_PATH: &str = "/bind-eviction";

/// How long the apiserver waits for an answer, in seconds.
pub(crate) const DISRUPTION_TIMEOUT: i32 = 5;

/// The most bytes of the names of namespaces. Each name stands in one mutating entry and in at most
/// eight validating ones, and an object of more than 1.5 MB cannot be stored.
const MOST_OF_NAMES: usize = 110_000;

/// Deletes what is in namespaces that end. It writes the error of a failed call, with the whole
/// path, into their status.
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// In which namespaces pods have budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disruptions {
    /// The namespaces.
    pub namespaces: BTreeSet<String>,
    /// The namespaces in which a budget may also hold a pod that is not ready.
    pub unready: BTreeSet<String>,
    /// Whether other namespaces were left out because the size limit was reached.
    pub is_full: bool,
    /// Whether a pod may go while no replica answers.
    pub fails_open: bool,
    /// Whether the webhook is called for deletions and evictions.
    pub deletions: bool,
    /// Whether the webhook is called for changes of pods, except changes by this user, who reserves
    /// before it writes.
    pub changes_but_by: Option<String>,
    /// The groups whose members no budget holds.
    pub exempt: BTreeSet<String>,
}

/// A request that takes a pod out of service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disruption {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The pod, or why it cannot be read, if the apiserver shows it.
    pub object: Option<Result<Pod, String>>,
    /// The uid that the eviction names.
    pub uid: Option<String>,
    /// The operation.
    pub change: Change,
    /// The pod after the change, if it changes.
    pub new: Option<Changed>,
    /// The user who makes the request.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Whether it is a dry run.
    pub is_dry_run: bool,
}

/// An operation on a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Change {
    /// It is deleted.
    #[default]
    Delete,
    /// It is evicted.
    Evict,
    /// Its spec or its labels change.
    Update,
    /// Its resources change.
    Resize,
}

/// The parts of a changed pod that matter to budgets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changed {
    /// The images of its containers, by name.
    pub images: Vec<(String, String)>,
    /// The names of containers that restart because of their new resources.
    pub restarted: Vec<String>,
}

impl Changed {
    /// From the pod before and after. Without the pod before, all resources count as changed.
    pub fn of(old: &Value, new: &Value) -> Self {
        let lists = ["containers", "initContainers"].into_iter();
        let all = lists.flat_map(|list| new["spec"][list].as_array().into_iter().flatten());
        let text = |field: &Value| field.as_str().map(str::to_owned);
        let images =
            all.filter_map(|container| text(&container["name"]).zip(text(&container["image"])));
        let restarted = resize::restarted(old, new).into_iter().map(str::to_owned);
        Self {
            images: images.collect(),
            restarted: restarted.collect(),
        }
    }
}

/// Knows the budgets of pods.
pub trait Budgets: fmt::Debug + Send + Sync {
    /// Reserves from all budgets that hold the pod; `Some` says why it must stay.
    ///
    /// # Errors
    /// What budgets there are is not known yet, or the apiserver did not answer.
    fn reserve_for(&self, disruption: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>>;

    /// The warning for the author of a new budget if other budgets may hold the same pods. `None`
    /// for other objects.
    fn beside(&self, resource: &str, object: &str) -> Option<String>;

    /// The uid of the pod that had the name a moment ago.
    fn known_uid(&self, namespace: &str, pod: &str) -> Option<String>;

    /// Whether to allow a disruption when the budgets cannot be checked.
    fn fails_open(&self, disruption: &Disruption) -> bool;
}

impl Disruptions {
    /// With these namespaces, each with whether a budget may hold a pod that is not ready. Takes
    /// the first ones, up to the size limit.
    #[must_use]
    pub fn of(self, namespaces: impl IntoIterator<Item = (String, bool)>) -> Self {
        let (mut all, mut bytes) = (self, 0);
        for (namespace, holds_unready) in namespaces {
            bytes += namespace.len() + 3;
            if bytes > MOST_OF_NAMES {
                all.is_full = true;
                break;
            }
            if holds_unready {
                all.unready.insert(namespace.clone());
            }
            all.namespaces.insert(namespace);
        }
        all
    }

    /// The intersection of the two.
    pub(super) fn within(self, other: &Self) -> Self {
        let both = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.intersection(other).cloned().collect()
        };
        let (namespaces, unready) = (
            both(&self.namespaces, &other.namespaces),
            both(&self.unready, &other.unready),
        );
        Self {
            namespaces,
            unready,
            ..self
        }
    }

    /// The entry that binds an eviction to the pod that has the name at that moment. An eviction
    /// that stayed unbound because no replica answered is refused later.
    pub(super) fn binding(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Option<Value> {
        let is_free = "has(request.name) && !object.?deleteOptions.?preconditions.?uid.hasValue()";
        (self.deletions && !self.namespaces.is_empty()).then(|| {
            json!({
                "name": "bind.evictions.kruise.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Ignore", "timeoutSeconds": TIMEOUT, "matchPolicy": "Exact", "reinvocationPolicy": "Never",
                "namespaceSelector": Self::selector(&self.namespaces), "rules": [rule("CREATE", "pods/eviction")],
                "matchConditions": [{"name": "names-no-uid", "expression": is_free}],
                "clientConfig": endpoint.secret_client_config(EVICT_PATH, trust),
            })
        })
    }

    fn selector(namespaces: &BTreeSet<String>) -> Value {
        json!({"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "In", "values": namespaces}]})
    }

    /// The expression of the requests that no budget may refuse, as
    /// [`berth_workload::budget::disruption::passes`] decides; `None` where all may be refused.
    fn passing(&self, operation: &str) -> Option<String> {
        let of_kubernetes = (operation == "DELETE").then(|| {
            let is_target = format!("c.type == '{DISRUPTION_TARGET}' && c.status == 'True'");
            format!(
                "request.userInfo.username in {} || (request.userInfo.username == '{KUBERNETES_SHARED}' && \
                 oldObject.?status.conditions.orValue([]).exists(c, {is_target}))",
                json!(PASSING)
            )
        });
        let of_groups = (!self.exempt.is_empty()).then(|| {
            format!(
                "request.userInfo.?groups.orValue([]).exists(group, group in {})",
                json!(self.exempt)
            )
        });
        let all: Vec<_> = of_kubernetes.into_iter().chain(of_groups).collect();
        (!all.is_empty()).then(|| all.join(" || "))
    }

    /// The entries. Requests that no budget may refuse have entries of their own: those fail open,
    /// so that preemption makes room for a replica when none answers.
    pub(super) fn webhooks(&self, endpoint: &Endpoint, trust: (&str, &str)) -> Vec<Value> {
        let ready = self.namespaces.difference(&self.unready).cloned().collect();
        let mut entries = Vec::new();
        for (of_unready, namespaces) in [("", &ready), ("-unready", &self.unready)] {
            if !namespaces.is_empty() {
                entries.extend(self.of_pods(of_unready, namespaces, endpoint, trust));
            }
        }
        if self.deletions && !self.namespaces.is_empty() {
            let is_named = condition("is-named", "has(request.name)".to_owned());
            let request = ("CREATE", "pods/eviction");
            entries.extend(self.entries(
                "evict",
                request,
                (&self.namespaces, &[is_named]),
                endpoint,
                trust,
            ));
        }
        entries
    }

    /// The entry for an operation, and the entry for requests of that operation that no budget may
    /// refuse, if there are any.
    fn entries(
        &self,
        name: &str,
        (operation, resource): (&str, &str),
        (namespaces, conditions): (&BTreeSet<String>, &[Value]),
        endpoint: &Endpoint,
        trust: (&str, &str),
    ) -> Vec<Value> {
        let entry = |name: &str, condition: Option<Value>, (policy, timeout): (&str, i32)| {
            json!({
                "name": format!("{name}.pods.kruise.io"), "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
                "failurePolicy": policy, "timeoutSeconds": timeout, "matchPolicy": "Exact",
                "namespaceSelector": Self::selector(namespaces), "rules": [rule(operation, resource)],
                "clientConfig": endpoint.secret_client_config(DISRUPT_PATH, trust),
                "matchConditions": conditions.iter().cloned().chain(condition).collect::<Vec<_>>(),
            })
        };
        let passing = self.passing(operation);
        let of_others = passing
            .as_ref()
            .map(|passing| condition("may-be-refused", format!("!({passing})")));
        let policy = if self.fails_open { "Ignore" } else { "Fail" };
        let mut entries = vec![entry(name, of_others, (policy, DISRUPTION_TIMEOUT))];
        entries.extend(passing.map(|passing| {
            entry(
                &format!("passing-{name}"),
                Some(condition("passes", passing)),
                ("Ignore", TIMEOUT),
            )
        }));
        entries
    }

    /// The entries for pods that the review shows, in these namespaces. The suffix of the names
    /// says whether pods that are not ready are included.
    fn of_pods(
        &self,
        of_unready: &str,
        namespaces: &BTreeSet<String>,
        endpoint: &Endpoint,
        trust: (&str, &str),
    ) -> Vec<Value> {
        let mut of_pods = conditions_of_pods();
        if of_unready.is_empty() {
            let ready = "oldObject.?status.conditions.orValue([]).exists(c, c.type == 'Ready' && c.status == 'True')";
            of_pods.push(condition("is-ready", ready.to_owned()));
        }
        let entries_of = |name: &str, request: (&str, &str), conditions: &[Value]| {
            self.entries(
                &format!("{name}{of_unready}"),
                request,
                (namespaces, conditions),
                endpoint,
                trust,
            )
        };
        let mut entries = Vec::new();
        if self.deletions {
            entries.extend(entries_of("delete", ("DELETE", "pods"), &of_pods));
        }
        if let Some(user) = &self.changes_but_by {
            let label = |object: &str| {
                format!(
                    "{object}.metadata.?labels.orValue({{}}).exists(key, key.startsWith('{UNAVAILABLE_POD_PREFIX}'))"
                )
            };
            of_pods.push(condition(
                "is-not-the-controller",
                format!("request.userInfo.username != '{user}'"),
            ));
            of_pods.push(condition(
                "takes-it-out-of-service",
                format!(
                    "object.spec != oldObject.spec || ({} && !{})",
                    label("object"),
                    label("oldObject")
                ),
            ));
            entries.extend(entries_of("update", ("UPDATE", "pods"), &of_pods));
            entries.extend(entries_of("resize", ("UPDATE", "pods/resize"), &of_pods));
        }
        entries
    }
}

/// The conditions of all entries for pods that the review shows.
fn conditions_of_pods() -> Vec<Value> {
    let annotation = |key: &str| format!("oldObject.metadata.?annotations[?'{key}']");
    vec![
        condition(
            "is-there",
            "oldObject != null && !has(oldObject.metadata.deletionTimestamp)".to_owned(),
        ),
        condition(
            "has-not-ended",
            "!(oldObject.?status.phase.orValue('') in ['Succeeded', 'Failed'])".to_owned(),
        ),
        condition(
            "is-no-mirror-pod",
            format!("!{}.hasValue()", annotation(MIRROR_POD)),
        ),
        condition(
            "is-protected",
            format!("{}.orValue('') != 'true'", annotation(PUB_NO_PROTECT)),
        ),
        condition(
            "is-not-of-ending-namespace",
            format!("request.userInfo.username != '{NAMESPACE_CONTROLLER}'"),
        ),
    ]
}

fn condition(name: &str, expression: String) -> Value {
    json!({"name": name, "expression": expression})
}

fn rule(operation: &str, resource: &str) -> Value {
    json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource], "scope": "Namespaced",
    })
}

#[cfg(test)]
mod tests;
