//! The input of a decision about a SidecarSet, from the stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetRepair};
use berth_kinds::sidecarset::{Snapshot, base_of, hashes, is_injected, speaks_of};
use berth_runtime::Object;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;

use super::SidecarSetController;
use crate::admission::injection::selectors::Compiled;
use crate::admission::injection::{Injection, Narrowed, is_paused};
use crate::stores::custom_resources::JOBS_OF_SIDECAR_SETS;
use crate::stores::watched::{Watched, sidecar_set_revisions};

/// The pods of a SidecarSet, the pods of its canaries by uid, and other pods whose conditions name
/// it.
type Sorted = (Vec<Arc<Pod>>, BTreeMap<Box<str>, Arc<Pod>>, Vec<Arc<Pod>>);

impl SidecarSetController {
    /// The SidecarSet's jobs that pull its images ahead; none if that kind is not served.
    fn jobs(&self, set: &Watched<SidecarSet>) -> Option<Vec<Arc<ImagePullJob>>> {
        let jobs = || {
            self.jobs
                .by_index(&JOBS_OF_SIDECAR_SETS, set.uid())
                .iter()
                .map(|job| job.0.clone())
                .collect()
        };
        (!self.jobs.is_missing()).then(jobs)
    }

    /// The selectors of the canaries of a SidecarSet.
    fn canaries(&self, base: &str) -> Vec<Compiled> {
        let is_canary = |set: &&Arc<Watched<SidecarSet>>| {
            base_of(&set.0).is_some_and(|known| known == base) && !is_paused(&set.0)
        };
        self.sets
            .all()
            .iter()
            .filter(is_canary)
            .map(|set| Compiled::new(&set.0))
            .collect()
    }

    /// By namespace of the pods: when a label was written by which the SidecarSet selects the
    /// namespace, if that was later than the namespace's creation.
    fn labelled(&self, selectors: &Compiled, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Timestamp> {
        let Some(selector) = &selectors.namespaces else {
            return BTreeMap::new();
        };
        let names: BTreeSet<_> = pods.iter().map(|pod| &pod.metadata.namespace).collect();
        let known = names
            .into_iter()
            .filter_map(|name| Some((name, self.namespaces.get("", name)?)));
        known
            .filter_map(|(name, it)| Some((name.clone(), it.0.labelled_for(selector)?)))
            .collect()
    }

    /// The pods that the SidecarSet has or lacks, those that a canary takes from it, by uid, and
    /// those whose conditions still name it.
    fn sorted(
        &self,
        set: &Watched<SidecarSet>,
        (selectors, narrowed): (&Compiled, &Narrowed),
        injection: &Injection,
    ) -> Sorted {
        let canaries = self.canaries(set.name());
        // A pod for which the webhook is not called, because other writers narrowed its entry,
        // lacks nothing.
        let is_left_out = |pod: &Pod| {
            let namespace = self.namespaces.get("", &pod.metadata.namespace);
            narrowed.leaves_out(|key| pod.metadata.label(key), namespace.as_deref())
        };
        let (mut pods, mut taken, mut strangers) = (Vec::new(), BTreeMap::new(), Vec::new());
        for pod in self.pods.all() {
            // Most pods do not concern this SidecarSet.
            let is_selected = selectors.select(&pod, &self.namespaces);
            let is_concerned = is_selected || speaks_of(&pod, set.name());
            if !is_concerned || injection.leaves_alone(&pod, &self.namespaces) {
                continue;
            }
            let is_taken = is_selected
                && canaries
                    .iter()
                    .any(|canary| canary.select(&pod, &self.namespaces));
            taken.extend(is_taken.then(|| (pod.metadata.uid.clone(), pod.clone())));
            // A pod gets the containers of a canary or of its base, not both.
            let lacks_nothing = || is_taken || is_left_out(&pod);
            if is_selected && (is_injected(&pod, set.name()) || !lacks_nothing()) {
                pods.push(pod);
            } else if speaks_of(&pod, set.name()) {
                strangers.push(pod);
            }
        }
        (pods, taken, strangers)
    }

    /// Everything that a decision about this SidecarSet reads, from the stores alone.
    pub(crate) fn observe(&self, set: &Watched<SidecarSet>, injection: &Injection) -> Snapshot {
        let selectors = Compiled::new(&set.0);
        let narrowed = injection.narrowed(&set.0);
        let repaired = |record: &SidecarSetRepair| self.pods.get(&record.namespace, &record.pod);
        let (pods, taken, strangers) = self.sorted(set, (&selectors, &narrowed), injection);
        let places = self.places((&selectors, &narrowed), injection);
        let node_image = |pod: &Arc<Pod>| {
            let node = self.nodeimages.get("", &pod.spec.node_name)?;
            Some((pod.spec.node_name.clone(), node.0.clone()))
        };
        let unreadable = |pod: &Arc<Pod>| {
            let odd = self
                .pods
                .unreadable(&pod.metadata.namespace, &pod.metadata.name)?;
            Some((pod.metadata.uid.clone(), odd.error.clone()))
        };
        Snapshot {
            unreadable: pods.iter().filter_map(unreadable).collect(),
            hashes: hashes(&set.0.spec),
            node_images: pods.iter().filter_map(node_image).collect(),
            labelled: self.labelled(&selectors, &pods),
            taken,
            set: set.0.clone(),
            pods,
            strangers,
            repaired: set
                .0
                .status
                .as_ref()
                .and_then(|status| status.repair.as_ref())
                .and_then(repaired),
            revisions: sidecar_set_revisions(&self.revisions, set, injection.own_namespace()),
            own_namespace: injection.own_namespace().to_owned(),
            jobs: self.jobs(set),
            gates: injection.gates(),
            allowed: injection.allowed(&set.0, &set.0.spec),
            annotations: BTreeMap::new(),
            reach: Self::reach(&places),
            injection_calls: injection.injection_calls(&set.0),
            fruitless: None,
            turns: self.turns.of(set),
        }
    }
}
