//! Pods that are taken out of service: whoever deletes, evicts or changes one in a namespace that has budgets is asked about first.
//!
//! Of what nobody may hold, the apiserver does not even ask: pods that end already or have ended, those of a kubelet's files, those
//! that no budget protects.

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
/// What the path of the handler begins with. How it ends, the apiserver alone is told.
pub const DISRUPT_PATH: &str = "/disrupt-pod";

/// What the path of the handler begins with that binds evictions to the pods that they name. How it ends, the apiserver alone is told,
/// too: the answers tell the uids of pods.
pub const EVICT_PATH: &str = "/bind-eviction";

/// How long the apiserver waits for an answer, in seconds.
pub(crate) const DISRUPTION_TIMEOUT: i32 = 5;

/// The most bytes of the names of namespaces. Each name stands in one mutating entry and in at most
/// eight validating ones, and an object of more than 1.5 MB cannot be stored.
const MOST_OF_NAMES: usize = 110_000;

/// Deletes what is in namespaces that end, and writes into their status what a call that failed has told: the whole path.
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// In which namespaces pods have budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disruptions {
    /// The namespaces.
    pub namespaces: BTreeSet<String>,
    /// Those of them in which a pod that is not ready may be held, too.
    pub unready: BTreeSet<String>,
    /// Whether there was no room for others.
    pub is_full: bool,
    /// Whether a pod goes where no replica answers.
    pub fails_open: bool,
    /// Whether deletions and evictions are asked about.
    pub deletions: bool,
    /// Whether changes of pods are, but for those of this user, who has drawn before.
    pub changes_but_by: Option<String>,
    /// The groups whose members no budget holds.
    pub exempt: BTreeSet<String>,
}

/// What is to befall a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disruption {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The pod, or why it cannot be read, where the apiserver shows it.
    pub object: Option<Result<Pod, String>>,
    /// The uid that whoever evicts it names.
    pub uid: Option<String>,
    /// What is to befall it.
    pub change: Change,
    /// What it becomes, where it changes.
    pub new: Option<Changed>,
    /// Who does it.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Nothing is to be done.
    pub is_dry_run: bool,
}

/// What is to befall a pod.
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

/// What a pod becomes that changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changed {
    /// The images of its containers, by name.
    pub images: Vec<(String, String)>,
    /// The containers that restart for the resources that they get, by name.
    pub restarted: Vec<String>,
}

impl Changed {
    /// By the pod before and after. Without the one before, all resources are others.
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

/// Who knows the budgets of pods.
pub trait Budgets: fmt::Debug + Send + Sync {
    /// Draws from all budgets that hold the pod; `Some` says why it must stay.
    ///
    /// # Errors
    /// What budgets there are is not known yet, or the apiserver did not answer.
    fn draw(&self, disruption: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>>;

    /// What the author of a new object is told, where that is a budget and others may hold the same pods.
    fn beside(&self, resource: &str, object: &str) -> Option<String>;

    /// The uid of the pod that had the name a moment ago.
    fn known_uid(&self, namespace: &str, pod: &str) -> Option<String>;

    /// Whether to allow a disruption when the budgets cannot be checked.
    fn fails_open(&self, disruption: &Disruption) -> bool;
}

impl Disruptions {
    /// In these namespaces, each with whether a pod that is not ready may be held: the first ones, as many as there is room for.
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

    /// What of it is in the other, too.
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

    /// The entry by which evictions are bound to the pod that has the name. One that is not, for nobody answered, is refused later.
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

    /// The expression of the requests that no budget may refuse, as [`berth_workload::budget::disruption::passes`] decides; `None`
    /// where all may be refused.
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

    /// The entries. Requests that no budget may refuse have entries of their own: those fail open, so that preemption makes room for a
    /// replica when none answers.
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
            let asked = ("CREATE", "pods/eviction");
            entries.extend(self.entries(
                "evict",
                asked,
                (&self.namespaces, &[is_named]),
                endpoint,
                trust,
            ));
        }
        entries
    }

    /// The entry about an operation, and the one about the requests of it that no budget may refuse, where there are any.
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

    /// The entries about pods that are shown, of these namespaces; of those that are not ready where the names of the entries end so.
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
        let entries_of = |name: &str, asked: (&str, &str), conditions: &[Value]| {
            self.entries(
                &format!("{name}{of_unready}"),
                asked,
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

/// The conditions of all entries about pods that are shown.
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
