//! Which SidecarSets select a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_runtime::{Change, Object, Store};
use berth_workload::objects::namespace::Namespace;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use parking_lot::{Mutex, MutexGuard};

use crate::stores::watched::Watched;

/// The parsed selectors of a SidecarSet.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// `None` selects nothing: there is no selector, or it is invalid.
    pods: Option<Selector>,
    /// `None` selects all.
    pub(crate) namespaces: Option<Selector>,
}

impl Compiled {
    pub(crate) fn new(set: &SidecarSet) -> Self {
        let pods = set
            .spec
            .selector
            .as_ref()
            .and_then(|selector| Selector::new(selector).ok());
        let namespaces = set
            .spec
            .namespace_selector
            .as_ref()
            .map(Selector::new)
            .transpose();
        // An invalid selector of namespaces selects none, and not all.
        let pods = pods.filter(|selector| !selector.is_empty() && namespaces.is_ok());
        Self {
            pods,
            namespaces: namespaces.ok().flatten(),
        }
    }

    /// Does it select a pod with these labels, in a namespace with those?
    pub(crate) fn selects<'a, 'b>(
        &self,
        label: impl Fn(&str) -> Option<&'a str>,
        of_namespace: impl Fn(&str) -> Option<&'b str>,
    ) -> bool {
        self.selects_pod(label) && self.selects_namespace(of_namespace)
    }

    /// Does it select pods in a namespace with these labels?
    pub(crate) fn selects_namespace<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.namespaces
            .as_ref()
            .is_none_or(|namespaces| namespaces.matches(label))
    }

    /// The selector of pods; `None` if it selects nothing.
    pub(crate) fn pods(&self) -> Option<&Selector> {
        self.pods.as_ref()
    }

    /// Does it select a pod with these labels, in some namespace?
    pub(crate) fn selects_pod<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.pods.as_ref().is_some_and(|pods| pods.matches(label))
    }

    /// Does it depend on labels of namespaces?
    pub(crate) fn asks_for_namespaces(&self) -> bool {
        self.namespaces.is_some()
    }

    pub(crate) fn select(&self, pod: &Pod, namespaces: &Store<Watched<Namespace>>) -> bool {
        let namespace = self
            .namespaces
            .as_ref()
            .and_then(|_| namespaces.get("", &pod.metadata.namespace));
        let of_namespace = |key: &str| {
            namespace
                .as_ref()
                .and_then(|namespace| namespace.0.metadata.label(key))
        };
        self.selects(|key| pod.metadata.label(key), of_namespace)
    }
}

/// The selectors of all SidecarSets. They are looked up for each pod that is created or changed.
#[derive(Debug, Default)]
pub(crate) struct Selectors(Mutex<Known>);

impl Selectors {
    /// The selectors of the SidecarSets in this store; they follow its changes.
    pub(crate) fn of_sets(sets: &Store<Watched<SidecarSet>>) -> Arc<Self> {
        let selectors = Arc::new(Self::default());
        let known = selectors.clone();
        sets.on_change(move |change| match change {
            Change::Applied { old, new } => {
                let are_old = old
                    .as_ref()
                    .is_some_and(|old| selectors_of(&old.0) == selectors_of(&new.0));
                if !are_old {
                    known.all().set(new.name(), Compiled::new(&new.0));
                }
            }
            Change::Deleted { old } => known.all().remove(old.name()),
            Change::Synced => {}
        });
        selectors
    }

    fn all(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }

    /// The names of the SidecarSets that select the pod.
    pub(crate) fn of(&self, pod: &Pod, namespaces: &Store<Watched<Namespace>>) -> Vec<String> {
        let all = self.all();
        let candidates = all.may_select(|key| pod.metadata.label(key));
        candidates
            .filter(|(_, compiled)| compiled.select(pod, namespaces))
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// The names of the SidecarSets that select a pod with these labels, in some namespace.
    pub(crate) fn of_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
        let all = self.all();
        let candidates = all.may_select(&label);
        candidates
            .filter(|(_, compiled)| compiled.selects_pod(&label))
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// The names of the SidecarSets that depend on labels of namespaces, or of all.
    pub(crate) fn of_namespaces(&self, all_of_them: bool) -> Vec<String> {
        let all = self.all();
        let asks = all
            .compiled
            .iter()
            .filter(|(_, compiled)| all_of_them || compiled.asks_for_namespaces());
        asks.map(|(name, _)| name.clone()).collect()
    }
}

/// The selectors of pods and of namespaces.
fn selectors_of(set: &SidecarSet) -> [&Option<LabelSelector>; 2] {
    [&set.spec.selector, &set.spec.namespace_selector]
}

/// By name, and by labels: of hundreds of SidecarSets, most ask for a label that a pod does not
/// have.
#[derive(Debug, Default)]
struct Known {
    compiled: BTreeMap<String, Compiled>,
    /// The names of the SidecarSets that ask for one of some values of a label, by its key and each
    /// of these values.
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// The names of the others.
    others: BTreeSet<String>,
}

impl Known {
    fn set(&mut self, name: &str, compiled: Compiled) {
        self.remove(name);
        match compiled.pods.as_ref().map(Selector::needs) {
            Some(Some((key, values))) => {
                let by_value = self.by_label.entry(key.to_owned()).or_default();
                for value in values {
                    by_value
                        .entry(value.clone())
                        .or_default()
                        .insert(name.to_owned());
                }
            }
            Some(None) => drop(self.others.insert(name.to_owned())),
            None => {}
        }
        self.compiled.insert(name.to_owned(), compiled);
    }

    fn remove(&mut self, name: &str) {
        self.others.remove(name);
        let Some(compiled) = self.compiled.remove(name) else {
            return;
        };
        let Some((key, values)) = compiled.pods.as_ref().and_then(Selector::needs) else {
            return;
        };
        let Some(by_value) = self.by_label.get_mut(key) else {
            return;
        };
        for value in values {
            if let Some(names) = by_value.get_mut(value) {
                names.remove(name);
            }
        }
        by_value.retain(|_, names| !names.is_empty());
        self.by_label.retain(|_, by_value| !by_value.is_empty());
    }

    /// A superset of the SidecarSets that select a pod with these labels.
    fn may_select<'a>(
        &self,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> impl Iterator<Item = (&String, &Compiled)> {
        let by_label = self
            .by_label
            .iter()
            .filter_map(move |(key, by_value)| by_value.get(label(key)?));
        by_label
            .flatten()
            .chain(&self.others)
            .filter_map(|name| self.compiled.get_key_value(name))
    }
}

#[cfg(test)]
mod tests;
