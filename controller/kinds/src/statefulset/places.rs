//! The set's pods by ordinal, the empty places, and the number of pods that may go out of service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::statefulset::StatefulSet;
use berth_workload::feature_gates::Gates;
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::pod_owner::PodOwner;
use berth_workload::update::inplace::steps;
use berth_workload::update::podset::history::Revisions;
use jiff::Timestamp;

use berth_workload::update::podset::claim_template;

use super::growth::Growth;
use super::settings::{Settings, ordinals};
use super::{Snapshot, StatefulSetOwner};

/// Most pods that one plan creates.
pub(super) const MOST_CREATIONS: usize = 256;
/// Empty places that a decision reads, beyond those that have pods: pods of other owners may have
/// some of the names.
const MOST_LOOKED_AT: usize = 2 * MOST_CREATIONS;

/// The set's pods by their ordinals.
pub(super) struct Places<'a> {
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    now: Timestamp,
    /// The sizes of growing claims.
    pub(super) growth: Growth,
    /// With ordered pods: the lowest place whose pod is missing or does not serve. The places after
    /// it wait for it.
    pub(super) gap: Option<Gap<'a>>,
    /// Wanted pods, by ordinal.
    pub(super) wanted: BTreeMap<i64, &'a Arc<Pod>>,
    /// Surplus pods, by ordinal.
    pub(super) condemned: BTreeMap<i64, &'a Arc<Pod>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, settings: &'a Settings, now: Timestamp) -> Self {
        let set = snapshot.view().workload.name();
        let pods = snapshot
            .pods
            .iter()
            .filter_map(|pod| Some((ordinal_of(set, &pod.metadata.name)?, pod)));
        let (wanted, condemned) =
            pods.partition(|(ordinal, _)| settings.ordinals.contains(*ordinal));
        let mut places = Self {
            snapshot,
            settings,
            now,
            growth: Growth::of(snapshot),
            gap: None,
            wanted,
            condemned,
        };
        places.gap = places.find_gap();
        places
    }

    /// Empty places, the lowest first. There may be too many to read all of them.
    pub(super) fn empty(&self) -> impl Iterator<Item = i64> {
        self.settings
            .ordinals
            .iter()
            .filter(|ordinal| !self.wanted.contains_key(ordinal))
    }

    /// Whether the pod is in service, with all volumes that it must have.
    pub(super) fn serves(&self, pod: &Pod) -> bool {
        availability(pod, self.settings.min_ready_seconds, self.now).is_available()
            && !steps::awaits_proof(pod)
            && self.growth.is_over(self.snapshot, pod)
    }

    /// Whether the pod matches the spec.
    pub(super) fn is_updated(&self, revisions: &Revisions, pod: &Pod) -> bool {
        is_updated(self.snapshot, revisions.is_updated(pod), pod)
    }

    /// How many pods may go out of service: none while as many pods as allowed are out of service.
    pub(super) fn budget(&self) -> usize {
        let serving = self.wanted.values().filter(|pod| self.serves(pod)).count();
        self.settings
            .max_unavailable
            .saturating_sub(self.settings.ordinals.len() - serving)
    }

    /// With ordered pods: the lower surplus pod that this one waits for, because neither serves.
    pub(super) fn lower(&self, ordinal: i64, pod: &Pod) -> Option<(i64, &'a Arc<Pod>)> {
        if self.serves(pod) || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let mut lower = self.condemned.range(..ordinal);
        lower
            .find(|(_, lower)| !self.serves(lower))
            .map(|(ordinal, lower)| (*ordinal, *lower))
    }

    fn find_gap(&self) -> Option<Gap<'a>> {
        if self.settings.is_parallel {
            return None;
        }
        let empty = self.empty().next();
        let idle = self
            .wanted
            .iter()
            .find(|(_, pod)| !self.serves(pod))
            .map(|(ordinal, pod)| (*ordinal, *pod));
        match (empty, idle) {
            (Some(empty), Some((ordinal, pod))) if ordinal < empty => Some(Gap {
                ordinal,
                pod: Some(pod),
            }),
            (Some(ordinal), _) => Some(Gap { ordinal, pod: None }),
            (None, idle) => idle.map(|(ordinal, pod)| Gap {
                ordinal,
                pod: Some(pod),
            }),
        }
    }

    /// The name of the pod of this ordinal.
    pub(super) fn name(&self, ordinal: i64) -> String {
        pod_name(self.snapshot.view().workload.name(), ordinal)
    }
}

/// A place for which the places after it wait.
#[derive(Clone, Copy)]
pub(super) struct Gap<'a> {
    /// Its ordinal.
    pub(super) ordinal: i64,
    /// The pod that does not serve; `None` if the place is empty.
    pub(super) pod: Option<&'a Arc<Pod>>,
}

fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// The names that a decision reads: those of pods that the set may create, and those of claims of
/// these and of its present pods. Empty for a spec that is refused.
pub fn names_to_look_at(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    counts_start: bool,
) -> (Vec<String>, Vec<String>) {
    let workload = StatefulSetOwner::workload(set, Gates::default());
    let Ok(ordinals) = ordinals(&set.spec, counts_start) else {
        return Default::default();
    };
    let has: BTreeSet<_> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    let names = ordinals
        .iter()
        .map(|ordinal| pod_name(workload.name(), ordinal));
    let created: Vec<_> = names
        .filter(|name| !has.contains(&**name))
        .take(MOST_LOOKED_AT)
        .collect();
    let all = pods
        .iter()
        .map(|pod| &*pod.metadata.name)
        .chain(created.iter().map(String::as_str));
    let claims = all
        .flat_map(|pod| claim_template::claim_names(&workload, pod))
        .collect();
    (created, claims)
}

/// The names of the claims that these pods may have from claim templates that were removed since.
pub fn former_claims<'a>(
    set: &StatefulSet,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
) -> Vec<String> {
    let workload = StatefulSetOwner::workload(set, Gates::default());
    pods.into_iter()
        .flat_map(|pod| claim_template::former_claim_names(&workload, pod))
        .collect()
}

/// Whether the pod has the wanted revision and a volume of each claim template. Claim templates are
/// no part of a revision. A removed template leaves a pod as it is.
pub(super) fn is_updated(snapshot: &Snapshot, is_of_revision: bool, pod: &Pod) -> bool {
    is_of_revision && claim_template::without_volume(&snapshot.view().workload, pod).is_none()
}
