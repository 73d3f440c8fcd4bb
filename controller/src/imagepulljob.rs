//! The ImagePullJob controller: spreads a job's image over the NodeImages of the nodes that it selects.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_runtime::driver::Next;
use berth_runtime::executor::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, object, turn};
use berth_workload::imagepulljob::{Snapshot, concerns, concerns_pod, decide, needs_pods, status};
use berth_workload::plan::{Action, Plan};
use jiff::Timestamp;

use crate::acting::{Acting, LARGE, next, target};
use crate::stores::Stores;
use crate::watched::Watched;

/// Wakes a job when it, or a NodeImage or pod that bears on it, changes.
pub(crate) fn wake(stores: &Stores, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
    let (to, acting) = (queue.clone(), acting.clone());
    stores.jobs.on_change(move |change| match change {
        Change::Applied { new, .. } => to.add(Key::of(&**new)),
        Change::Deleted { old } => acting.expectations.forget(old.uid()),
        Change::Synced => {}
    });
    let (to, jobs) = (queue.clone(), stores.jobs.clone());
    stores.nodeimages.on_change(move |change| {
        let Some((old, new)) = sides(change) else { return };
        let (old, new) = (old.map(|old| &*old.0), new.map(|new| &*new.0));
        for job in jobs.all().iter().filter(|job| concerns(&job.0, old, new)) {
            to.add(Key::of(&**job));
        }
    });
    let (to, jobs) = (queue.clone(), stores.jobs.clone());
    stores.pods.on_change(move |change| {
        let Some((old, new)) = sides(change) else { return };
        // Pods change all the time and jobs are few: most clusters have none, and then nothing is looked at.
        if jobs.is_empty() {
            return;
        }
        let Some(namespace) = new.or(old).map(|pod| &pod.metadata.namespace) else { return };
        let of_namespace = |job: &&Arc<Watched<ImagePullJob>>| job.namespace() == &**namespace;
        for job in jobs.all().iter().filter(of_namespace).filter(|job| concerns_pod(&job.0, old, new)) {
            to.add(Key::of(&**job));
        }
    });
}

/// Both sides of a change.
fn sides<T>(change: &Change<T>) -> Option<(Option<&T>, Option<&T>)> {
    match change {
        Change::Applied { old, new } => Some((old.as_deref(), Some(&**new))),
        Change::Deleted { old } => Some((Some(&**old), None)),
        Change::Synced => None,
    }
}

/// One round for one job.
pub(crate) async fn reconcile(acting: &Acting, key: Key) -> Next {
    let stores = &acting.stores;
    let Some(job) = stores.jobs.get(&key.namespace, &key.name) else { return Next::Done };
    if let Err(next) = acting.settled(job.uid()).await {
        return next;
    }
    let is_leaving = |job: &Watched<ImagePullJob>| job.0.metadata.deletion_timestamp.is_some();
    let leaving = || stores.jobs.all().iter().filter(|job| is_leaving(job)).map(|job| job.uid().to_owned()).collect();
    let of_namespace = || stores.pods.by_index(&pods::BY_NAMESPACE, &key.namespace);
    let snapshot = Snapshot {
        job: job.0.clone(),
        node_images: stores.nodeimages.all().iter().map(|image| image.0.clone()).collect(),
        pods: if needs_pods(&job.0) { of_namespace() } else { Vec::new() },
        leaving: if is_leaving(&job) { leaving() } else { BTreeSet::new() },
        gates: acting.gates,
    };
    let now = Timestamp::now();
    let plan = turn::decide(snapshot.node_images.len() > LARGE, || decide(&snapshot, now)).await;
    let outcome = acting.executor.act(&plan, &Owner::of(&*job)).await;
    let written = if outcome.failures.is_empty() && ends(&job.0, &plan) {
        Ok(false)
    } else {
        let status = status(&snapshot, &plan, &outcome, now);
        acting.write_status(&object::IMAGE_PULL_JOBS, &target(&*job), &job.0.status, &Some(status)).await.map(|_| true)
    };
    acting.forget_if_gone(&stores.jobs, &*job);
    next(&plan, &outcome, written)
}

/// After this plan there is no job any more to have a status.
fn ends(job: &ImagePullJob, plan: &Plan) -> bool {
    plan.actions().any(|action| match action {
        Action::DeleteImagePullJob { .. } => true,
        Action::PatchImagePullJob { .. } => job.metadata.deletion_timestamp.is_some(),
        _ => false,
    })
}
