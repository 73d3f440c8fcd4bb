//! The CloneSet controller: observe, decide, act, status.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;
use berth_runtime::driver::Next;
use berth_runtime::executor::Owner;
use berth_runtime::feed::Odd;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Owned, object, turn};
use berth_workload::cloneset::{Snapshot, brings_images, decide, part, status, waits_for_images};
use berth_workload::gates::{Gate, Gates};
use berth_workload::inplace::resize::Ability;
use berth_workload::nodeimage::Node;
use berth_workload::owner::{self, Reference};
use berth_workload::plan::Plan;
use berth_workload::pod::{Metadata, Pod, spread};
use berth_workload::revision;
use jiff::Timestamp;

use crate::acting::{Acting, LARGE, next, target};
use crate::overlapping;
use crate::stores::Stores;
use crate::unreadable;
use crate::watched::{Watched, managing_set};

/// Wakes a CloneSet when it, one of its pods, one of its revisions or one of their claims changes.
pub(crate) fn wake(stores: &Stores, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
    let (to, acting) = (queue.clone(), acting.clone());
    stores.clonesets.on_change(move |change| match change {
        Change::Applied { old: Some(old), new } if !is_news(&old.0, &new.0) => {}
        Change::Applied { new, .. } => to.add(Key::of(&**new)),
        Change::Deleted { old } => acting.expectations.forget(old.uid()),
        Change::Synced => {}
    });
    overlapping::wake(&stores.clonesets, queue);
    let to = queue.clone();
    stores.pods.on_change(move |change| each(change, |pod| wake_owner(&to, &pod.metadata)));
    let to = queue.clone();
    stores.revisions.on_change(move |change| each(change, |revision| wake_owner(&to, &revision.0.metadata)));
    wake_for_images(stores, queue);
    wake_for_unreadable(stores, queue);
    let (to, pods) = (queue.clone(), stores.pods.clone());
    // A claim that a pod owns is the pod's CloneSet's matter.
    stores.claims.on_change(move |change| {
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
    let (to, pods) = (queue.clone(), stores.pods.clone());
    // A daemon's answer about containers is for the pods whose update waits for it.
    stores.nodeimages.on_change(move |change| {
        let Change::Applied { new, .. } = change else { return };
        let Some(status) = new.0.status.as_ref().filter(|status| !status.inspected_pods.is_empty()) else { return };
        let on_node = pods.by_index(&pods::BY_NODE, new.name());
        for pod in on_node.iter().filter(|pod| status.inspected_pods.iter().any(|p| *p.uid == *pod.metadata.uid)) {
            wake_owner(&to, &pod.metadata);
        }
    });
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
fn wake_for_unreadable(stores: &Stores, queue: &Arc<Queue<Key>>) {
    let to = queue.clone();
    stores.clonesets.on_unreadable(move |odd| to.add(Key::new(&odd.namespace, &odd.name)));
    let (to, pods) = (queue.clone(), stores.pods.clone());
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
    stores.pods.on_unreadable(move |odd| of_pods(odd));
    let of_revisions = wake.clone();
    stores.revisions.on_unreadable(move |odd| of_revisions(odd));
    stores.claims.on_unreadable(move |odd| wake(odd));
}

/// Wakes a CloneSet when an ImagePullJob of it comes or goes, and when a node gets an image that its updates may wait for.
fn wake_for_images(stores: &Stores, queue: &Arc<Queue<Key>>) {
    let to = queue.clone();
    stores.jobs.on_change(move |change| {
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
    let (to, pods, sets) = (queue.clone(), stores.pods.clone(), stores.clonesets.clone());
    stores.nodeimages.on_change(move |change| {
        let Change::Applied { old, new } = change else { return };
        if !brings_images(old.as_ref().map(|old| &*old.0), &new.0) {
            return;
        }
        for pod in pods.by_index(&pods::BY_NODE, new.name()) {
            let Some(owner) = managing_set(&pod.metadata) else { continue };
            if sets.get(&pod.metadata.namespace, owner.name).is_some_and(|set| waits_for_images(&set.0)) {
                wake_owner(&to, &pod.metadata);
            }
        }
    });
}

/// Both sides of a change: an object that changes its owner concerns both.
pub(crate) fn each<T>(change: &Change<T>, mut concerns: impl FnMut(&T)) {
    match change {
        Change::Applied { old, new } => {
            old.iter().for_each(|old| concerns(old));
            concerns(new);
        }
        Change::Deleted { old } => concerns(old),
        Change::Synced => {}
    }
}

/// By name, in the object's namespace: whose the object is in truth is asked when the CloneSet is decided on.
fn wake_owner(queue: &Queue<Key>, metadata: &Metadata) {
    if let Some(set) = managing_set(metadata) {
        queue.add(Key::new(&metadata.namespace, set.name));
    }
}

/// Everything that a decision about this CloneSet reads, from the stores alone.
pub(crate) fn observe(stores: &Stores, set: &Watched<CloneSet>, gates: Gates, resize: Ability) -> Snapshot {
    let owner = owner_key(set);
    let pods = stores.pods.owned_by(&owner);
    let owned = stores.revisions.owned_by(&owner);
    let mut revisions: Vec<_> = owned.iter().map(|revision| revision.0.clone()).collect();
    revision::sort(&mut revisions);
    let mut nodes = BTreeMap::new();
    for pod in &pods {
        let name = &pod.spec.node_name;
        // Without daemons, what a NodeImage says is of another time.
        if gates.has(Gate::KruiseDaemon)
            && !nodes.contains_key(name)
            && let Some(node) = stores.nodeimages.get("", name)
        {
            nodes.insert(name.clone(), node.0.clone());
        }
    }
    let hosts = hosts(stores, set, &pods);
    let claims = stores.claims_of(set, &pods);
    let orphans = stores.orphans_of(set);
    let unreadable = stores.unreadable_of(set, &pods);
    let (pods, strays) = part(&set.0, pods);
    // Seeded by the operating system, anew for every hasher.
    let seed = RandomState::new().build_hasher().finish();
    let jobs = || stores.jobs.owned_by(&owner).iter().map(|job| job.0.clone()).collect();
    let jobs = (!stores.jobs.is_missing()).then(jobs);
    let overlapping = overlapping::names(&stores.clonesets, set);
    let set = set.0.clone();
    Snapshot {
        set,
        pods,
        strays,
        claims,
        orphans,
        revisions,
        nodes,
        jobs,
        unreadable,
        overlapping,
        hosts,
        gates,
        resize,
        seed,
    }
}

/// The nodes of the pods, where the template says how its pods are spread over them.
fn hosts(stores: &Stores, set: &Watched<CloneSet>, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Arc<Node>> {
    let mut hosts = BTreeMap::new();
    if !spread::is_constrained(&set.0.spec.template) {
        return hosts;
    }
    for pod in pods {
        let name = &pod.spec.node_name;
        if !hosts.contains_key(name)
            && let Some(node) = stores.nodes.get("", name)
        {
            hosts.insert(name.clone(), node.0.clone());
        }
    }
    hosts
}

/// One round for one CloneSet, by what was last read of it. That it cannot be read any more is told on it.
pub(crate) async fn reconcile(acting: &Acting, key: Key) -> Next {
    let set = acting.stores.clonesets.get(&key.namespace, &key.name);
    let Some(odd) = acting.stores.clonesets.unreadable(&key.namespace, &key.name) else {
        acting.told.forget(&key);
        let Some(set) = set else { return Next::Done };
        return round(acting, &set).await;
    };
    let told = unreadable::tell(acting, &key, &odd).await;
    let next = match set {
        Some(set) => round(acting, &set).await,
        None => {
            // No decision waits for the store to see what was told.
            acting.expectations.forget(&odd.uid);
            Next::Done
        }
    };
    told.map_or_else(Next::Retry, |()| next)
}

async fn round(acting: &Acting, set: &Watched<CloneSet>) -> Next {
    if let Err(next) = acting.settled(set.uid()).await {
        return next;
    }
    let now = Timestamp::now();
    let snapshot = observe(&acting.stores, set, acting.gates, acting.resize);
    let plan: Plan = turn::decide(snapshot.pods.len() > LARGE, || decide(&snapshot, now)).await;
    let outcome = acting.executor.act(&plan, &Owner::of(set)).await;
    let status = status(&snapshot, &plan, &outcome, now);
    let written = acting.write_status(&object::CLONE_SETS, &target(set), &snapshot.set.status, &status).await;
    acting.forget_if_gone(&acting.stores.clonesets, set);
    next(&plan, &outcome, written)
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
