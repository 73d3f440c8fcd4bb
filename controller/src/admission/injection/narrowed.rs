//! Entries of the pod webhook to whose selectors other writers have added: the webhook is called
//! for fewer pods than SidecarSets select.

use std::collections::BTreeMap;

use berth_workload::objects::namespace::Namespace;
use berth_workload::objects::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::stores::watched::Watched;

/// For which pods that a SidecarSet selects the webhook is called.
#[derive(Debug)]
pub(crate) struct Narrowed {
    /// Selectors of namespaces and of pods, all of which must match. `None` if they are not known.
    found: Option<Vec<(Selector, Selector)>>,
}

impl Narrowed {
    /// From the selectors of namespaces and of pods to which other writers have added. They are not
    /// known before the entries were read, or if one is invalid here.
    pub(super) fn new(found: Option<&[(LabelSelector, LabelSelector)]>) -> Self {
        let read = |(namespaces, pods): &(LabelSelector, LabelSelector)| {
            Some((Selector::new(namespaces).ok()?, Selector::new(pods).ok()?))
        };
        Self {
            found: found.and_then(|found| found.iter().map(read).collect()),
        }
    }

    /// Whether the webhook is not called for a pod with these labels, or that is not known. The
    /// labels of an unknown namespace are not known either.
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

    /// Is the webhook called for no pod of the namespace, as far as is known?
    pub(crate) fn leaves_out_namespace(&self, namespace: &Watched<Namespace>) -> bool {
        let selects = |(namespaces, _): &(Selector, Selector)| {
            namespaces.matches(|key| namespace.0.metadata.label(key))
        };
        self.found
            .as_ref()
            .is_some_and(|found| !found.iter().all(selects))
    }

    /// Labels of pods that match this selector and everything that other writers have added; `None`
    /// if no labels do.
    pub(crate) fn example(&self, selector: &Selector) -> Option<BTreeMap<String, String>> {
        let added = self.found.iter().flatten().map(|(_, pods)| pods);
        Selector::example(added.chain([selector]))
    }
}

#[cfg(test)]
mod tests;
