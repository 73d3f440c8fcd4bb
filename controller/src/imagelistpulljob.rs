//! The ImageListPullJob controller: one ImagePullJob for each image of a list.

use std::sync::Arc;

use berth_runtime::driver::Next;
use berth_runtime::executor::Owner;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Owned, object};
use berth_workload::imagelistpulljob::{Snapshot, decide, status};
use berth_workload::owner;
use berth_workload::plan::Action;
use jiff::Timestamp;

use crate::acting::{Acting, next, target};
use crate::cloneset::each;
use crate::stores::Stores;

/// Wakes a list when it or one of its jobs changes.
pub(crate) fn wake(stores: &Stores, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
    let (to, acting) = (queue.clone(), acting.clone());
    stores.lists.on_change(move |change| match change {
        Change::Applied { new, .. } => to.add(Key::of(&**new)),
        Change::Deleted { old } => acting.expectations.forget(old.uid()),
        Change::Synced => {}
    });
    let to = queue.clone();
    stores.jobs.on_change(move |change| {
        each(change, |job| {
            if let Some(list) = job.owner().filter(|owner| owner::IMAGE_LIST_PULL_JOB.is_of(owner)) {
                to.add(Key::new(job.namespace(), list.name));
            }
        });
    });
}

/// One round for one list.
pub(crate) async fn reconcile(acting: &Acting, key: Key) -> Next {
    let Some(list) = acting.stores.lists.get(&key.namespace, &key.name) else { return Next::Done };
    if let Err(next) = acting.settled(list.uid()).await {
        return next;
    }
    let jobs = acting.stores.jobs.owned_by(&owner_key(&*list));
    let jobs = jobs.iter().map(|job| job.0.clone()).collect();
    let snapshot = Snapshot { list: list.0.clone(), jobs, gates: acting.gates };
    let now = Timestamp::now();
    let plan = decide(&snapshot, now);
    let outcome = acting.executor.act(&plan, &Owner::of(&*list)).await;
    let ends = plan.actions().any(|action| matches!(action, Action::DeleteImageListPullJob { .. }));
    let written = if ends {
        Ok(false)
    } else {
        let status = Some(status(&snapshot, &plan, &outcome, now));
        acting.write_status(&object::IMAGE_LIST_PULL_JOBS, &target(&*list), &list.0.status, &status).await
    };
    acting.forget_if_gone(&acting.stores.lists, &*list);
    next(&plan, &outcome, written)
}
