//! The CloneSet controller: observe, decide, act, status.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::NodeImage;
use berth_kinds::cloneset::{Orphans, Snapshot, decide, status};
use berth_runtime::driver::Next;
use berth_runtime::feed::Odd;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Owned, Resource, Store, object, turn};
use berth_workload::claim::Claim;
use berth_workload::gates::{Gate, Gates};
use berth_workload::inplace::resize::Ability;
use berth_workload::node::Node;
use berth_workload::owner::{self, OwnerKey, Reference};
use berth_workload::plan::{Outcome, Plan};
use berth_workload::pod::{Metadata, Pod, spread};
use berth_workload::podset::{Phases, Unreadable, split_by_selector};
use berth_workload::predownload::{brings_images, waits_for_images};
use berth_workload::revision::{self, Revision};
use jiff::Timestamp;

use crate::acting::{Acting, LARGE};
use crate::controllers::{Controller, each};
use crate::overlapping;
use crate::reads::{Read, Reader};
use crate::unreadable;
use crate::watched::{CustomResource, ORPHANED_CLAIMS, ORPHANED_REVISIONS, Watched, managing_set};

/// What a decision about a CloneSet is made of.
pub(crate) struct Reads {
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) clonesets: Arc<Store<Watched<CloneSet>>>,
    pub(crate) revisions: Arc<Store<Watched<Revision>>>,
    pub(crate) claims: Arc<Store<Watched<Claim>>>,
    pub(crate) nodeimages: Arc<Store<Watched<NodeImage>>>,
    pub(crate) jobs: Arc<Store<Watched<ImagePullJob>>>,
    /// Where pods are spread over nodes, those are to stay that spread best.
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
}

impl CustomResource for CloneSet {
    const RESOURCE: Resource = object::CLONE_SETS;
}

impl Read for Watched<CloneSet> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[overlapping::BY_NAMESPACE])
    }
}

impl Controller for Reads {
    const RESOURCE: Resource = object::CLONE_SETS;
    const NAME: &'static str = "cloneset";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            pods: reader.read(),
            clonesets: reader.read(),
            revisions: reader.read(),
            claims: reader.read(),
            nodeimages: reader.read(),
            jobs: reader.read(),
            nodes: reader.read(),
        }
    }

    /// Wakes a CloneSet when it, one of its pods, one of its revisions or one of their claims changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        let (to, acting) = (queue.clone(), acting.clone());
        self.clonesets.on_change(move |change| match change {
            Change::Applied { old: Some(old), new } if !is_news(&old.0, &new.0) => {}
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => acting.expectations.forget(old.uid()),
            Change::Synced => {}
        });
        overlapping::wake(&self.clonesets, queue);
        let to = queue.clone();
        self.pods.on_change(move |change| each(change, |pod| wake_owner(&to, &pod.metadata)));
        let to = queue.clone();
        self.revisions.on_change(move |change| each(change, |revision| wake_owner(&to, &revision.0.metadata)));
        wake_for_images(self, queue);
        wake_for_unreadable(self, queue);
        let (to, pods) = (queue.clone(), self.pods.clone());
        // A claim that a pod owns is the pod's CloneSet's matter.
        self.claims.on_change(move |change| {
            each(change, |claim| {
                let metadata = &claim.0.metadata;
                wake_owner(&to, metadata);
                for reference in metadata.owner_references.iter().map(Reference::from) {
                    let pod = pods.get(&metadata.namespace, reference.name);
                    let owns = |pod: &Arc<Pod>| owner_key(&**pod).owns(&metadata.namespace, &reference);
                    pod.filter(owns).iter().for_each(|pod| wake_owner(&to, &pod.metadata));
                }
            });
        });
        let (to, pods) = (queue.clone(), self.pods.clone());
        // A daemon's answer about containers is for the pods whose update waits for it.
        self.nodeimages.on_change(move |change| {
            let Change::Applied { new, .. } = change else { return };
            let Some(status) = new.0.status.as_ref().filter(|status| !status.inspected_pods.is_empty()) else { return };
            let on_node = pods.by_index(&pods::BY_NODE, new.name());
            for pod in on_node.iter().filter(|pod| status.inspected_pods.iter().any(|p| *p.uid == *pod.metadata.uid)) {
                wake_owner(&to, &pod.metadata);
            }
        });
    }

    /// One round for one CloneSet, by what was last read of it. That it cannot be read any more is told on it.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let set = self.clonesets.get(&key.namespace, &key.name);
        let Some(odd) = self.clonesets.unreadable(&key.namespace, &key.name) else {
            acting.told.forget(&key);
            let Some(set) = set else { return Next::Done };
            return round(self, acting, &set).await;
        };
        let told = unreadable::tell(acting, &key, &odd).await;
        let next = match set {
            Some(set) => round(self, acting, &set).await,
            None => {
                // No decision waits for the store to see what was told.
                acting.expectations.forget(&odd.uid);
                Next::Done
            }
        };
        told.map_or_else(Next::Retry, |()| next)
    }
}

/// Other words in a condition are the controller's own, and no reason to decide again: the words of a refusal that name
/// another new pod each time would be answered with another try at once.
fn is_news(old: &CloneSet, new: &CloneSet) -> bool {
    let told = |set: &CloneSet| {
        let mut status = set.status.clone().unwrap_or_default();
        for condition in &mut status.conditions {
            condition.message = String::new();
            (condition.last_update_time, condition.last_transition_time) = (None, None);
        }
        status
    };
    let (a, b) = (&old.metadata, &new.metadata);
    (a.generation, &a.labels, &a.annotations, &a.deletion_timestamp)
        != (b.generation, &b.labels, &b.annotations, &b.deletion_timestamp)
        || told(old) != told(new)
}

/// Wakes a CloneSet when it or one of its objects cannot be read any more, or is gone that could not.
fn wake_for_unreadable(reads: &Reads, queue: &Arc<Queue<Key>>) {
    let to = queue.clone();
    reads.clonesets.on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
    let (to, pods) = (queue.clone(), reads.pods.clone());
    let wake = Arc::new(move |odd: &Odd| {
        for reference in odd.owners.iter().map(Reference::from) {
            if owner::CLONE_SET.is_of(&reference) {
                to.add(Key::new(&odd.namespace, reference.name));
            } else if owner::POD.is_of(&reference) {
                let pod = pods.get(&odd.namespace, reference.name);
                pod.iter().for_each(|pod| wake_owner(&to, &pod.metadata));
            }
        }
    });
    let of_pods = wake.clone();
    reads.pods.on_unreadable(move |odd| of_pods(odd));
    let of_revisions = wake.clone();
    reads.revisions.on_unreadable(move |odd| of_revisions(odd));
    reads.claims.on_unreadable(move |odd| wake(odd));
}

/// Wakes a CloneSet when an ImagePullJob of it comes or goes, and when a node gets an image that its updates may wait for.
fn wake_for_images(reads: &Reads, queue: &Arc<Queue<Key>>) {
    let to = queue.clone();
    reads.jobs.on_change(move |change| {
        let job = match change {
            Change::Deleted { old } => old,
            Change::Applied { old, new } if old.as_ref().is_none_or(|old| old.terminating() != new.terminating()) => {
                new
            }
            Change::Applied { .. } | Change::Synced => return,
        };
        if let Some(set) = job.owner().filter(|owner| owner::CLONE_SET.is_of(owner)) {
            to.add(Key::new(job.namespace(), set.name));
        }
    });
    let (to, pods, sets) = (queue.clone(), reads.pods.clone(), reads.clonesets.clone());
    reads.nodeimages.on_change(move |change| {
        let Change::Applied { old, new } = change else { return };
        if !brings_images(old.as_ref().map(|old| &*old.0), &new.0) {
            return;
        }
        for pod in pods.by_index(&pods::BY_NODE, new.name()) {
            let Some(owner) = managing_set(&pod.metadata) else { continue };
            if sets.get(&pod.metadata.namespace, owner.name).is_some_and(|set| waits_for_images(&set.0.metadata)) {
                wake_owner(&to, &pod.metadata);
            }
        }
    });
}

/// By name, in the object's namespace: whose the object is in truth is asked when the CloneSet is decided on.
fn wake_owner(queue: &Queue<Key>, metadata: &Metadata) {
    if let Some(set) = managing_set(metadata) {
        queue.add(Key::new(&metadata.namespace, set.name));
    }
}

/// Everything that a decision about this CloneSet reads, from the stores alone.
pub(crate) fn observe(reads: &Reads, set: &Watched<CloneSet>, gates: Gates, resize: Ability) -> Snapshot {
    let owner = owner_key(set);
    let pods = reads.pods.owned_by(&owner);
    let owned = reads.revisions.owned_by(&owner);
    let mut revisions: Vec<_> = owned.iter().map(|revision| revision.0.clone()).collect();
    revision::sort(&mut revisions);
    let node_images = node_images(reads, gates, &pods);
    let nodes = nodes(reads, set, &pods);
    let claims = claims_of(reads, set, &pods);
    let orphans = orphans_of(reads, set);
    let unreadable = unreadable_of(reads, set, &pods);
    let (pods, strays) = split_by_selector(&set.0.spec.selector, pods);
    // Seeded by the operating system, anew for every hasher.
    let seed = RandomState::new().build_hasher().finish();
    let jobs = || reads.jobs.owned_by(&owner).iter().map(|job| job.0.clone()).collect();
    let jobs = (!reads.jobs.is_missing()).then(jobs);
    let overlapping = overlapping::names(&reads.clonesets, set);
    let set = set.0.clone();
    Snapshot {
        set,
        pods,
        strays,
        claims,
        orphans,
        revisions,
        node_images,
        nodes,
        jobs,
        phases: Phases::default(),
        unreadable,
        overlapping,
        gates,
        resize,
        seed,
    }
}

/// What the daemons of the pods' nodes report.
fn node_images(reads: &Reads, gates: Gates, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Arc<NodeImage>> {
    // Without daemons, what a NodeImage says is of another time.
    if !gates.has(Gate::KruiseDaemon) {
        return BTreeMap::new();
    }
    by_node(pods, |name| reads.nodeimages.get("", name).map(|image| image.0.clone()))
}

/// The nodes of the pods, where the template says how its pods are spread over them.
fn nodes(reads: &Reads, set: &Watched<CloneSet>, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Arc<Node>> {
    if !spread::is_constrained(&set.0.spec.template) {
        return BTreeMap::new();
    }
    by_node(pods, |name| reads.nodes.get("", name).map(|node| node.0.clone()))
}

/// Something for each node that the pods are on, asked once for each.
fn by_node<T>(pods: &[Arc<Pod>], get: impl Fn(&str) -> Option<Arc<T>>) -> BTreeMap<Box<str>, Arc<T>> {
    let mut all = BTreeMap::new();
    for name in pods.iter().map(|pod| &pod.spec.node_name) {
        if !all.contains_key(name)
            && let Some(one) = get(name)
        {
            all.insert(name.clone(), one);
        }
    }
    all
}

/// The claims of the CloneSet and of its pods.
fn claims_of(reads: &Reads, set: &Watched<CloneSet>, pods: &[Arc<Pod>]) -> Vec<Arc<Claim>> {
    let owners = std::iter::once(owner_key(set)).chain(pods.iter().map(|pod| owner_key(&**pod)));
    let claims = owners.flat_map(|owner| reads.claims.owned_by(&owner));
    claims.map(|claim| claim.0.clone()).collect()
}

/// What an earlier CloneSet of this name may have left.
fn orphans_of(reads: &Reads, set: &Watched<CloneSet>) -> Orphans {
    let namespace = set.namespace();
    let pods = reads.pods.by_index(&pods::ORPHANS, namespace);
    let claims = reads.claims.by_index(&ORPHANED_CLAIMS, namespace);
    let revisions = reads.revisions.by_index(&ORPHANED_REVISIONS, namespace);
    let claims = claims.iter().map(|claim| claim.0.clone()).collect();
    Orphans::of(&set.0, pods, claims, revisions.iter().map(|revision| revision.0.clone()).collect())
}

/// What of the CloneSet, and which claims of its pods, cannot be read.
fn unreadable_of(reads: &Reads, set: &Watched<CloneSet>, pods: &[Arc<Pod>]) -> Vec<Unreadable> {
    let owner = owner_key(set);
    let mut all = unreadable_in(&reads.pods, &owner);
    all.extend(unreadable_in(&reads.revisions, &owner));
    all.extend(unreadable_in(&reads.claims, &owner));
    for pod in pods {
        all.extend(unreadable_in(&reads.claims, &owner_key(&**pod)));
    }
    all
}

/// Those of one owner in a store.
fn unreadable_in<T: Object>(store: &Store<T>, owner: &OwnerKey<'_>) -> Vec<Unreadable> {
    let of = |odd: &Odd| Unreadable { kind: T::RESOURCE.kind, name: odd.name.clone(), error: odd.error.clone() };
    store.unreadable_of(owner).iter().map(|odd| of(odd)).collect()
}

/// Has it many pods, or is it to have many? By the numbers that are at hand.
fn is_large(set: &CloneSet) -> bool {
    let has = set.status.as_ref().map_or(0, |status| status.replicas);
    usize::try_from(has.max(set.spec.replicas.unwrap_or(1))).is_ok_and(|pods| pods > LARGE)
}

async fn round(reads: &Reads, acting: &Acting, set: &Watched<CloneSet>) -> Next {
    if let Err(next) = acting.settled(set.uid()).await {
        return next;
    }
    let now = Timestamp::now();
    let is_large = is_large(&set.0);
    let decided = || {
        let snapshot = observe(reads, set, acting.gates, acting.resize);
        acting.has_all_of_others(set.uid(), &snapshot.pods)?;
        let plan = decide(&snapshot, now);
        Ok((snapshot, plan))
    };
    let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
        Ok(decided) => decided,
        Err(next) => return next,
    };
    let status = |outcome: &Outcome| Some(turn::alone(is_large, || status(&snapshot, &plan, outcome, now)));
    acting.carry_out(&plan, &reads.clonesets, set, (&set.0.status, status)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_words_in_a_condition_are_no_news() {
        let set = |generation: i64, reason: &str, message: &str| -> CloneSet {
            serde_json::from_value(json!({
                "metadata": {"name": "web", "generation": generation},
                "spec": {"selector": {}, "template": {}},
                "status": {"conditions": [{"type": "FailedScale", "status": "True", "reason": reason, "message": message}]},
            }))
            .unwrap()
        };
        let before = set(1, "Refused", "pod a");
        for (after, news) in
            [(set(1, "Refused", "pod b"), false), (set(1, "Other", "pod a"), true), (set(2, "Refused", "pod a"), true)]
        {
            assert_eq!(is_news(&before, &after), news, "{after:?}");
        }
    }
}
