//! The objects that wake SidecarSets, besides the SidecarSets themselves and their pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::names::condition::SIDECARSET_UPGRADABLE as UPGRADABLE;
use berth_kinds::sidecarset::spoken_of;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object};
use berth_webhook::pods::UNTOUCHED;
use berth_workload::images::predownload::{brings_images, waits_for_images};
use berth_workload::objects::pod::Pod;

use super::{SidecarSetController, is_gone};

/// How long the SidecarSets wait for further namespaces that come or go.
const GATHER: Duration = Duration::from_secs(1);

impl SidecarSetController {
    /// A pod that cannot be read any more is no candidate of an update.
    pub(super) fn wake_for_unreadable_pods(&self, queue: &Arc<Queue<Key>>) {
        let (to, selectors, namespaces) = (
            queue.clone(),
            self.selectors.clone(),
            self.namespaces.clone(),
        );
        let pods = Arc::downgrade(&self.pods);
        self.pods.on_unreadable(move |odd| {
            let Some(pod) = pods
                .upgrade()
                .and_then(|pods| pods.get(&odd.namespace, &odd.name))
            else {
                return;
            };
            selectors
                .of(&pod, &namespaces)
                .into_iter()
                .for_each(|set| to.add(Key::new("", &set)));
        });
    }

    /// Wakes SidecarSets that are gone but stand in the condition of a pod: the replica that should
    /// have removed the condition may have died before.
    pub(super) fn wake_for_the_gone(&self, queue: &Arc<Queue<Key>>) {
        let (to, sets) = (queue.clone(), self.sets.clone());
        self.pods.on_change(move |change| {
            let Change::Applied { old, new } = change else {
                return;
            };
            let said = |pod: &Pod| {
                pod.condition(UPGRADABLE)
                    .map(|condition| condition.message.clone())
            };
            if old.as_ref().is_none_or(|old| said(old) != said(new)) {
                spoken_of(new)
                    .iter()
                    .filter(|name| is_gone(&sets, name))
                    .for_each(|name| to.add(Key::new("", name)));
            }
        });
        // Stores own their hooks, and the hook above holds this store. So this hook holds weak
        // references.
        let (to, sets, pods) = (
            queue.clone(),
            Arc::downgrade(&self.sets),
            Arc::downgrade(&self.pods),
        );
        self.sets.on_change(move |change| {
            let (Change::Synced, Some(sets), Some(pods)) = (change, sets.upgrade(), pods.upgrade())
            else {
                return;
            };
            let names: BTreeSet<_> = pods.all().iter().flat_map(|pod| spoken_of(pod)).collect();
            names
                .iter()
                .filter(|name| is_gone(&sets, name))
                .for_each(|name| to.add(Key::new("", name)));
        });
    }

    /// A namespace that comes or goes, or whose labels change, may be selected by other SidecarSets
    /// now.
    pub(super) fn wake_for_namespaces(&self, queue: &Arc<Queue<Key>>) {
        let (to, selectors) = (queue.clone(), self.selectors.clone());
        self.namespaces.on_change(move |change| {
            let (old, new) = match change {
                Change::Applied {
                    old: Some(old),
                    new,
                } => (&old.0.metadata, &new.0.metadata),
                // A namespace that comes or goes may be the only one that a SidecarSet selects.
                Change::Applied { old: None, .. } | Change::Deleted { .. } => {
                    let woken = selectors.of_namespaces(false);
                    return woken
                        .into_iter()
                        .for_each(|set| to.add_after(Key::new("", &set), GATHER));
                }
                Change::Synced => return,
            };
            if old.labels != new.labels {
                // From now on its pods are left alone by all SidecarSets, or no longer.
                let concerns_all = old.label(UNTOUCHED.0) != new.label(UNTOUCHED.0);
                selectors
                    .of_namespaces(concerns_all)
                    .into_iter()
                    .for_each(|set| to.add(Key::new("", &set)));
            }
        });
    }

    /// A daemon's answer about containers is for the pods whose update waits for it.
    pub(super) fn wake_for_answers(&self, queue: &Arc<Queue<Key>>) {
        let (to, pods, selectors, namespaces) = (
            queue.clone(),
            self.pods.clone(),
            self.selectors.clone(),
            self.namespaces.clone(),
        );
        self.nodeimages.on_change(move |change| {
            let Change::Applied { new, .. } = change else {
                return;
            };
            let Some(status) = new
                .0
                .status
                .as_ref()
                .filter(|status| !status.inspected_pods.is_empty())
            else {
                return;
            };
            let on_node = pods.by_index(&pods::BY_NODE, new.name());
            for pod in on_node.iter().filter(|pod| {
                status
                    .inspected_pods
                    .iter()
                    .any(|p| *p.uid == *pod.metadata.uid)
            }) {
                selectors
                    .of(pod, &namespaces)
                    .into_iter()
                    .for_each(|set| to.add(Key::new("", &set)));
            }
        });
    }

    /// An image that a node has now may be what updates of its pods wait for.
    pub(super) fn wake_for_images(&self, queue: &Arc<Queue<Key>>) {
        let (to, pods, selectors, namespaces, sets) = (
            queue.clone(),
            self.pods.clone(),
            self.selectors.clone(),
            self.namespaces.clone(),
            self.sets.clone(),
        );
        self.nodeimages.on_change(move |change| {
            let Change::Applied { old, new } = change else {
                return;
            };
            if !sets
                .all()
                .iter()
                .any(|set| waits_for_images(&set.0.metadata))
                || !brings_images(old.as_ref().map(|old| &*old.0), &new.0)
            {
                return;
            }
            let on_node = pods.by_index(&pods::BY_NODE, new.name());
            let woken: BTreeSet<_> = on_node
                .iter()
                .flat_map(|pod| selectors.of(pod, &namespaces))
                .collect();
            let waits = |set: &String| {
                sets.get("", set)
                    .is_some_and(|set| waits_for_images(&set.0.metadata))
            };
            woken
                .into_iter()
                .filter(waits)
                .for_each(|set| to.add(Key::new("", &set)));
        });
    }
}
