//! The ImagePullJob controller: spreads a job's image over the NodeImages of the nodes that it
//! selects.

use berth_workload::images::pull::closed;
use berth_workload::objects::pod::Pod;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_kinds::imagepulljob::{Snapshot, concerns, concerns_pod, decide, needs_pods, status};
use berth_runtime::driver::Next;
use berth_runtime::driver::turn;
use berth_runtime::object::IMAGE_PULL_JOBS;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::plan::{Action, Outcome, Plan};
use jiff::Timestamp;

use crate::context::{Context, LARGE};
use crate::reconcile::controller::Controller;
use crate::stores::reads::Reader;
use crate::stores::watched::Watched;

/// The stores that a decision reads.
pub(crate) struct ImagePullJobController {
    pods: Arc<Store<Pod>>,
    nodeimages: Arc<Store<Watched<NodeImage>>>,
    jobs: Arc<Store<Watched<ImagePullJob>>>,
}

impl Controller for ImagePullJobController {
    const RESOURCE: Resource = IMAGE_PULL_JOBS;
    const NAME: &'static str = "imagepulljob";

    fn closed(gates: Gates) -> Option<String> {
        closed(gates)
    }

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            pods: reader.read(),
            nodeimages: reader.read(),
            jobs: reader.read(),
        }
    }

    /// Wakes a job when it changes, or a NodeImage or pod that concerns it.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, context) = (queue.clone(), context.clone());
        self.jobs.on_change(move |change| match change {
            Change::Applied { new, .. } => to.add(Key::of(&**new)),
            Change::Deleted { old } => context.expectations.forget(old.uid()),
            Change::Synced => {}
        });
        let (to, jobs) = (queue.clone(), self.jobs.clone());
        self.nodeimages.on_change(move |change| {
            let Some((old, new)) = sides(change) else {
                return;
            };
            let (old, new) = (old.map(|old| &*old.0), new.map(|new| &*new.0));
            for job in jobs.all().iter().filter(|job| concerns(&job.0, old, new)) {
                to.add(Key::of(&**job));
            }
        });
        let (to, jobs) = (queue.clone(), self.jobs.clone());
        self.nodeimages.on_unreadable(move |_| {
            let all = jobs.all();
            all.iter()
                .filter(|job| concerns(&job.0, None, None))
                .for_each(|job| to.add(Key::of(&**job)));
        });
        let (to, jobs) = (queue.clone(), self.jobs.clone());
        self.pods.on_change(move |change| {
            let Some((old, new)) = sides(change) else {
                return;
            };
            // Pods change all the time. Most clusters have no jobs, and then no pod is checked.
            if jobs.is_empty() {
                return;
            }
            let Some(namespace) = new.or(old).map(|pod| &pod.metadata.namespace) else {
                return;
            };
            let of_namespace = |job: &&Arc<Watched<ImagePullJob>>| job.namespace() == &**namespace;
            for job in jobs
                .all()
                .iter()
                .filter(of_namespace)
                .filter(|job| concerns_pod(&job.0, old, new))
            {
                to.add(Key::of(&**job));
            }
        });
    }

    /// One round for one job.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let Some(job) = self.jobs.get(&key.namespace, &key.name) else {
            return Next::Done;
        };
        let job = match context.seen(&self.jobs, &*job).await {
            Ok(job) => job,
            Err(next) => return next,
        };
        let is_leaving = |job: &Watched<ImagePullJob>| job.0.metadata.deletion_timestamp.is_some();
        let leaving = || {
            self.jobs
                .all()
                .iter()
                .filter(|job| is_leaving(job))
                .map(|job| job.uid().to_owned())
                .collect()
        };
        let of_namespace = || self.pods.by_index(&pods::BY_NAMESPACE, &key.namespace);
        let snapshot = Snapshot {
            job: job.0.clone(),
            node_images: self
                .nodeimages
                .all()
                .iter()
                .map(|image| image.0.clone())
                .collect(),
            unreadable: self.nodeimages.all_unreadable(),
            pods: if needs_pods(&job.0) {
                of_namespace()
            } else {
                Vec::new()
            },
            leaving: if is_leaving(&job) {
                leaving()
            } else {
                BTreeSet::new()
            },
            gates: context.gates,
        };
        let now = Timestamp::now();
        let plan = turn::decide(snapshot.node_images.len() > LARGE, || {
            decide(&snapshot, now)
        })
        .await;
        let status = |outcome: &Outcome| {
            let is_over = outcome.failures.is_empty() && ends(&job.0, &plan);
            (!is_over).then(|| Some(status(&snapshot, &plan, outcome, now)))
        };
        context
            .carry_out(&plan, &self.jobs, &*job, (&job.0.status, status))
            .await
    }
}

/// Both sides of a change.
fn sides<T>(change: &Change<T>) -> Option<(Option<&T>, Option<&T>)> {
    match change {
        Change::Applied { old, new } => Some((old.as_deref(), Some(&**new))),
        Change::Deleted { old } => Some((Some(&**old), None)),
        Change::Synced => None,
    }
}

/// After this plan the job is gone, so no status is written.
fn ends(job: &ImagePullJob, plan: &Plan) -> bool {
    plan.actions().any(|action| match action {
        Action::Delete {
            resource: IMAGE_PULL_JOBS,
            ..
        } => true,
        Action::Patch {
            resource: IMAGE_PULL_JOBS,
            ..
        } => job.metadata.deletion_timestamp.is_some(),
        _ => false,
    })
}
