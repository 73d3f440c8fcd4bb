//! Pods that are taken out of service: whoever deletes, evicts or changes one in a namespace that has budgets is asked about first.
//!
//! Of what nobody may hold, the apiserver does not even ask: pods that end already or have ended, those of a kubelet's files, those
//! that no budget protects.

use std::collections::BTreeSet;
use std::fmt;

use berth_api::names::annotation::{MIRROR_POD, PUB_NO_PROTECT};
use berth_api::names::label::{NAMESPACE_NAME, UNAVAILABLE_POD_PREFIX};
use berth_workload::budget::disruption::{DISRUPTION_TARGET, KUBERNETES_SHARED, PASSING};
use berth_workload::inplace::resize;
use berth_workload::pod::Pod;
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
        let annotation = |key: &str| format!("oldObject.metadata.?annotations[?'{key}']");
        let mut of_pods = vec![
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
        ];
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

fn condition(name: &str, expression: String) -> Value {
    json!({"name": name, "expression": expression})
}

fn rule(operation: &str, resource: &str) -> Value {
    json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource], "scope": "Namespaced",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_path::told;

    #[test]
    fn only_namespaces_with_budgets_are_asked_about_and_what_nobody_may_hold_is_left_out() {
        let service = Endpoint::Service {
            namespace: "kruise-system".to_owned(),
            name: "kruise-webhook-service".to_owned(),
        };
        assert!(
            Disruptions::default()
                .webhooks(&service, ("PEM", "s"))
                .is_empty()
        );
        let one = Disruptions {
            namespaces: ["a".to_owned()].into(),
            deletions: true,
            ..Disruptions::default()
        };
        let entries = one.webhooks(&service, ("PEM", "s"));
        let asked = |entry: &Value| {
            (
                entry["rules"][0]["operations"].clone(),
                entry["rules"][0]["resources"].clone(),
            )
        };
        assert_eq!(asked(&entries[0]), (json!(["DELETE"]), json!(["pods"])));
        assert_eq!(asked(&entries[1]), (json!(["DELETE"]), json!(["pods"])));
        assert_eq!(
            asked(&entries[2]),
            (json!(["CREATE"]), json!(["pods/eviction"]))
        );
        for (entry, policy) in entries.iter().zip(["Fail", "Ignore", "Fail"]) {
            assert_eq!(
                entry["namespaceSelector"]["matchExpressions"][0]["values"],
                json!(["a"])
            );
            assert_eq!(
                (&entry["failurePolicy"], &entry["sideEffects"]),
                (&json!(policy), &json!("NoneOnDryRun"))
            );
        }
        let is_free = json!(format!(
            "request.userInfo.username != '{NAMESPACE_CONTROLLER}'"
        ));
        let conditions = entries[0]["matchConditions"].as_array().unwrap();
        assert!(
            conditions
                .iter()
                .any(|condition| condition["expression"] == is_free),
            "its status would tell the path"
        );
        let size = |disruptions: &Disruptions| {
            disruptions.webhooks(&service, ("PEM", "s"))[0]["matchConditions"]
                .as_array()
                .unwrap()
                .len()
        };
        assert_eq!(
            size(&Disruptions {
                unready: one.namespaces.clone(),
                ..one.clone()
            }),
            size(&one) - 1
        );
        let open = Disruptions {
            fails_open: true,
            ..one.clone()
        };
        assert_eq!(
            open.webhooks(&service, ("PEM", "s"))[0]["failurePolicy"],
            "Ignore"
        );
        let binding = one.binding(&service, ("PEM", "s")).unwrap();
        assert_eq!(
            asked(&binding),
            (json!(["CREATE"]), json!(["pods/eviction"]))
        );
        let path = |entry: &Value| entry["clientConfig"]["service"]["path"].clone();
        assert_eq!(
            (path(&binding), path(&entries[0])),
            (json!(told(EVICT_PATH, "s")), json!(told(DISRUPT_PATH, "s")))
        );
        assert_eq!(
            (&binding["failurePolicy"], &binding["namespaceSelector"]),
            (&json!("Ignore"), &entries[0]["namespaceSelector"])
        );
        assert_eq!(Disruptions::default().binding(&service, ("PEM", "s")), None);
        let changes = Disruptions {
            changes_but_by: Some("me".to_owned()),
            ..one.clone()
        };
        let entries = changes.webhooks(&service, ("PEM", "s"));
        assert_eq!(asked(&entries[2]), (json!(["UPDATE"]), json!(["pods"])));
        assert_eq!(
            asked(&entries[3]),
            (json!(["UPDATE"]), json!(["pods/resize"]))
        );
        assert!(
            entries[3]["matchConditions"]
                .to_string()
                .contains("request.userInfo.username != 'me'")
        );
        assert_eq!(
            one.clone().within(&Disruptions::default()).namespaces,
            BTreeSet::new()
        );
    }

    #[test]
    fn deletions_and_changes_are_asked_about_each_by_itself() {
        let service = Endpoint::Service {
            namespace: "kruise-system".to_owned(),
            name: "kruise-webhook-service".to_owned(),
        };
        for (deletions, changes, expected) in [
            (false, false, vec![]),
            (
                true,
                false,
                vec!["DELETE pods", "DELETE pods", "CREATE pods/eviction"],
            ),
            (false, true, vec!["UPDATE pods", "UPDATE pods/resize"]),
            (
                true,
                true,
                vec![
                    "DELETE pods",
                    "DELETE pods",
                    "UPDATE pods",
                    "UPDATE pods/resize",
                    "CREATE pods/eviction",
                ],
            ),
        ] {
            let asked = Disruptions {
                namespaces: ["a".to_owned()].into(),
                deletions,
                changes_but_by: changes.then(|| "me".to_owned()),
                ..Disruptions::default()
            };
            let entries = asked.webhooks(&service, ("PEM", "s"));
            let what = |entry: &Value| {
                let word = |path: &str| {
                    entry
                        .pointer(path)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                format!(
                    "{} {}",
                    word("/rules/0/operations/0"),
                    word("/rules/0/resources/0")
                )
            };
            assert_eq!(
                entries.iter().map(what).collect::<Vec<_>>(),
                expected,
                "{deletions} {changes}"
            );
            // What is never asked about is left out of all of them, but of evictions, which say nothing of the pod.
            let of_pods = entries
                .iter()
                .filter(|entry| !what(entry).ends_with("eviction"));
            for entry in of_pods {
                assert_eq!(
                    entry["matchConditions"][0]["name"], "is-there",
                    "{deletions} {changes}"
                );
            }
            let binds = asked.binding(&service, ("PEM", "s")).is_some();
            assert_eq!(
                binds, deletions,
                "who evicts none need not name its uid: {deletions} {changes}"
            );
        }
    }

    #[test]
    fn passing_requests_have_entries_that_fail_open() {
        let service = Endpoint::Service {
            namespace: "kruise-system".to_owned(),
            name: "kruise-webhook-service".to_owned(),
        };
        for (exempt, expected) in [
            (vec![], vec!["passing-delete"]),
            (
                vec!["on\"call"],
                vec![
                    "passing-delete",
                    "passing-update",
                    "passing-resize",
                    "passing-evict",
                ],
            ),
        ] {
            let asked = Disruptions {
                namespaces: ["a".to_owned()].into(),
                deletions: true,
                changes_but_by: Some("me".to_owned()),
                exempt: exempt.iter().map(|group| (*group).to_owned()).collect(),
                ..Disruptions::default()
            };
            let entries = asked.webhooks(&service, ("PEM", "s"));
            let name = |entry: &Value| {
                entry["name"]
                    .as_str()
                    .unwrap()
                    .trim_end_matches(".pods.kruise.io")
                    .to_owned()
            };
            let expression = |entry: &Value| {
                entry["matchConditions"].as_array().unwrap().last().unwrap()["expression"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            let passing: Vec<_> = entries
                .iter()
                .filter(|entry| entry["failurePolicy"] == "Ignore")
                .collect();
            assert_eq!(
                passing.iter().map(|entry| name(entry)).collect::<Vec<_>>(),
                expected
            );
            for entry in passing {
                let other = name(entry).replace("passing-", "");
                let other = entries.iter().find(|entry| name(entry) == other).unwrap();
                assert_eq!(
                    format!("!({})", expression(entry)),
                    expression(other),
                    "each request has one entry"
                );
                assert_eq!(entry["timeoutSeconds"], TIMEOUT);
                let names_group =
                    expression(entry).contains(r#"exists(group, group in ["on\"call"])"#);
                assert_eq!(names_group, !exempt.is_empty(), "{}", expression(entry));
            }
        }
    }

    #[test]
    fn budget_of_unready_pods_changes_no_other_namespace() {
        let service = Endpoint::Service {
            namespace: "kruise-system".to_owned(),
            name: "kruise-webhook-service".to_owned(),
        };
        let asked = Disruptions {
            deletions: true,
            changes_but_by: Some("me".to_owned()),
            ..Disruptions::default()
        };
        let asked = asked
            .of([("a", false), ("t1", true)].map(|(name, unready)| (name.to_owned(), unready)));
        let entries = asked.webhooks(&service, ("PEM", "s"));
        let said = entries.iter().map(|entry| {
            let is_ready = entry["matchConditions"]
                .to_string()
                .contains("\"is-ready\"");
            let values = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
            (
                entry["name"]
                    .as_str()
                    .unwrap()
                    .trim_end_matches(".pods.kruise.io"),
                is_ready,
                values.to_string(),
            )
        });
        let (a, t1, both) = (r#"["a"]"#, r#"["t1"]"#, r#"["a","t1"]"#);
        let expected = [
            ("delete", true, a),
            ("passing-delete", true, a),
            ("update", true, a),
            ("resize", true, a),
            ("delete-unready", false, t1),
            ("passing-delete-unready", false, t1),
            ("update-unready", false, t1),
            ("resize-unready", false, t1),
            ("evict", false, both),
        ];
        let expected = expected.map(|(name, is_ready, values)| (name, is_ready, values.to_owned()));
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn entries_of_many_namespaces_stay_below_a_megabyte() {
        let service = Endpoint::Service {
            namespace: "kruise-system".to_owned(),
            name: "kruise-webhook-service".to_owned(),
        };
        let name = |number: usize| format!("{number}-{}", "x".repeat(56));
        let (changes_but_by, exempt) = (Some("me".to_owned()), ["oncall".to_owned()].into());
        let asked = Disruptions {
            deletions: true,
            changes_but_by,
            exempt,
            ..Disruptions::default()
        };
        let asked = asked.of((0..5_000).map(|number| (name(number), number % 2 == 0)));
        assert!(
            asked.is_full
                && asked.namespaces.contains(&name(1_000))
                && !asked.namespaces.contains(&name(4_999))
        );
        assert!(
            json!(asked.webhooks(&service, ("PEM", "s")))
                .to_string()
                .len()
                < 1_000_000
        );
        assert!(
            json!(asked.binding(&service, ("PEM", "s")))
                .to_string()
                .len()
                < 150_000
        );
    }
}
