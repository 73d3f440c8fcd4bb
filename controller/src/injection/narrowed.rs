//! Entries of the pod webhook to whose selectors others have added: it is called for fewer pods than SidecarSets select.

use std::collections::BTreeMap;

use berth_workload::namespace::Namespace;
use berth_workload::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::watched::Watched;

/// For which pods that a SidecarSet selects the webhook is called.
#[derive(Debug)]
pub(crate) struct Narrowed {
    /// Selectors of namespaces and of pods, all of which must match. `None`: nobody knows.
    found: Option<Vec<(Selector, Selector)>>,
}

impl Narrowed {
    /// By the selectors of namespaces and of pods to which others have added. Before the entries were read, and where one makes no sense
    /// here, nobody knows.
    pub(super) fn new(found: Option<&[(LabelSelector, LabelSelector)]>) -> Self {
        let read = |(namespaces, pods): &(LabelSelector, LabelSelector)| {
            Some((Selector::new(namespaces).ok()?, Selector::new(pods).ok()?))
        };
        Self {
            found: found.and_then(|found| found.iter().map(read).collect()),
        }
    }

    /// Is the webhook not called for a pod with these labels, or does nobody know? Of a namespace that is not known its labels are not.
    pub(crate) fn leaves_out<'a>(
        &self,
        label: impl Fn(&str) -> Option<&'a str>,
        namespace: Option<&Watched<Namespace>>,
    ) -> bool {
        let is_called = |(namespaces, pods): &(Selector, Selector)| {
            let of_namespace = |namespace: &Watched<Namespace>| {
                namespaces.matches(|key| namespace.0.metadata.label(key))
            };
            namespace.is_some_and(of_namespace) && pods.matches(&label)
        };
        self.found
            .as_ref()
            .is_none_or(|found| !found.iter().all(is_called))
    }

    /// Is the webhook called for no pod of the namespace, by what is known?
    pub(crate) fn leaves_out_namespace(&self, namespace: &Watched<Namespace>) -> bool {
        let selects = |(namespaces, _): &(Selector, Selector)| {
            namespaces.matches(|key| namespace.0.metadata.label(key))
        };
        self.found
            .as_ref()
            .is_some_and(|found| !found.iter().all(selects))
    }

    /// Labels of pods that match this selector and all that others have added; `None` where none do.
    pub(crate) fn example(&self, selector: &Selector) -> Option<BTreeMap<String, String>> {
        let added = self.found.iter().flatten().map(|(_, pods)| pods);
        Selector::example(added.chain([selector]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn example_matches_what_others_have_added() {
        let selector =
            |value: Value| Selector::new(&serde_json::from_value(value).unwrap()).unwrap();
        let added = |pods: Value| {
            let found: Vec<(LabelSelector, LabelSelector)> =
                serde_json::from_value(json!([[{}, pods]])).unwrap();
            Narrowed::new(Some(&found))
        };
        let own = selector(json!({"matchLabels": {"app": "web"}}));
        let example = added(json!({"matchExpressions": [{"key": "inject", "operator": "Exists"}]}))
            .example(&own);
        assert_eq!(
            example.unwrap().keys().collect::<Vec<_>>(),
            ["app", "inject"]
        );
        assert_eq!(
            added(json!({"matchLabels": {"app": "db"}})).example(&own),
            None
        );
    }

    #[test]
    fn pods_are_left_out_that_do_not_match_what_others_have_added_or_of_which_nobody_knows() {
        let has_none =
            || json!({"matchExpressions": [{"key": "no-sidecars", "operator": "DoesNotExist"}]});
        let asks = || json!({"matchLabels": {"inject": "yes"}});
        let any = || json!({});
        let namespace = |labels: Value| Some(json!({"metadata": {"name": "n", "labels": labels}}));
        let (plain, opted_out) = (namespace(json!({})), namespace(json!({"no-sidecars": ""})));
        for (what, found, namespace, pod, expected) in [
            ("nothing is added", Some(json!([])), &plain, "no", false),
            (
                "nothing is added, the namespace is new",
                Some(json!([])),
                &None,
                "no",
                false,
            ),
            ("the entries were not read", None, &plain, "yes", true),
            (
                "a namespace that matches",
                Some(json!([[has_none(), any()]])),
                &plain,
                "no",
                false,
            ),
            (
                "one that does not",
                Some(json!([[has_none(), any()]])),
                &opted_out,
                "yes",
                true,
            ),
            (
                "one that nobody knows",
                Some(json!([[has_none(), any()]])),
                &None,
                "yes",
                true,
            ),
            (
                "a pod that matches",
                Some(json!([[any(), asks()]])),
                &plain,
                "yes",
                false,
            ),
            (
                "one that does not",
                Some(json!([[any(), asks()]])),
                &plain,
                "no",
                true,
            ),
            (
                "one of two entries",
                Some(json!([[any(), any()], [any(), asks()]])),
                &plain,
                "no",
                true,
            ),
        ] {
            let found: Option<Vec<(LabelSelector, LabelSelector)>> =
                found.map(|found| serde_json::from_value(found).unwrap());
            let namespace: Option<Watched<Namespace>> = namespace
                .clone()
                .map(|namespace| serde_json::from_value(namespace).unwrap());
            let label = |key: &str| (key == "inject").then_some(pod);
            let is_left_out = Narrowed::new(found.as_deref()).leaves_out(label, namespace.as_ref());
            assert_eq!(is_left_out, expected, "{what}");
        }
    }
}
