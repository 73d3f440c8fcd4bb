//! The ImageListPullJob controller: one ImagePullJob for each image of a list.

use std::sync::Arc;

use berth_api::v1beta1::imagelistpulljob::ImageListPullJob;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_kinds::imagelistpulljob::{Snapshot, decide, status};
use berth_runtime::driver::Next;
use berth_runtime::object::{IMAGE_LIST_PULL_JOBS, owner_key};
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Owned, Resource, Store};
use berth_workload::feature_gates::Gates;
use berth_workload::images::pull::closed;
use berth_workload::plan::{Action, Outcome};
use jiff::Timestamp;

use crate::context::Context;
use crate::reconcile::controller::Controller;
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::Watched;

/// The stores that a decision reads.
pub(crate) struct ImageListPullJobController {
    lists: Arc<Store<Watched<ImageListPullJob>>>,
    jobs: Arc<Store<Watched<ImagePullJob>>>,
}

impl Controller for ImageListPullJobController {
    const RESOURCE: Resource = IMAGE_LIST_PULL_JOBS;
    const NAME: &'static str = "imagelistpulljob";

    fn closed(gates: Gates) -> Option<String> {
        closed(gates)
    }

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            lists: reader.read(),
            jobs: reader.read(),
        }
    }

    /// Wakes a list when it or one of its jobs changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, context) = (queue.clone(), context.clone());
        self.lists.on_change(move |change| match change {
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => context.expectations.forget(old.uid()),
            Change::Synced => {}
        });
        let to = queue.clone();
        self.jobs.on_change(move |change| {
            each(change, |job| {
                if let Some(list) = job
                    .owner()
                    .filter(|owner| IMAGE_LIST_PULL_JOBS.owner_kind().is_of(owner))
                {
                    to.add(Key::new(job.namespace(), list.name));
                }
            });
        });
    }

    /// One round for one list.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let Some(list) = self.lists.get(&key.namespace, &key.name) else {
            return Next::Done;
        };
        let list = match context.seen(&self.lists, &*list).await {
            Ok(list) => list,
            Err(next) => return next,
        };
        let jobs = self.jobs.owned_by(&owner_key(&*list));
        let jobs = jobs.iter().map(|job| job.0.clone()).collect();
        let snapshot = Snapshot {
            list: list.0.clone(),
            jobs,
            gates: context.gates,
        };
        let now = Timestamp::now();
        let plan = decide(&snapshot, now);
        let ends = plan.actions().any(|action| {
            matches!(
                action,
                Action::Delete {
                    resource: IMAGE_LIST_PULL_JOBS,
                    ..
                }
            )
        });
        let status =
            |outcome: &Outcome| (!ends).then(|| Some(status(&snapshot, &plan, outcome, now)));
        context
            .carry_out(&plan, &self.lists, &*list, (&list.0.status, status))
            .await
    }
}
