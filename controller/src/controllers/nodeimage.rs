//! The NodeImage controller: it creates and deletes NodeImages with their nodes, and removes
//! entries that no object asks for any more.

use std::sync::Arc;

use berth_api::v1beta1::ContainerRecreateRequest;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_kinds::daemonset::{holds_revision, kept};
use berth_kinds::nodeimage::{
    Join, Snapshot, bears_on, decide, is_joining, job_bears_on, may_end_a_wait,
};
use berth_kinds::sidecarset::{has_container, is_injected};
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::object::{NODE_IMAGES, owner_key};
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Owned, Resource, Store};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::{NodeImage, is_requested_by, owners};
use berth_workload::objects::pod::{Metadata, Pod};
use berth_workload::update::inplace::sidecars;
use berth_workload::update::recreate::stop::Requested;
use berth_workload::update::revision::{self, Revision};
use jiff::Timestamp;

use crate::context::{Context, next};
use crate::reconcile::controller::Controller;
use crate::stores::custom_resources::{
    PREPULLED, PREPULLED_CLONE_SETS, PREPULLED_DAEMON_SETS, requests_of_pod,
};
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::{CustomResource, Watched, is_managed};

/// The stores that a decision about a NodeImage reads.
pub(crate) struct NodeImageController {
    pub(crate) pods: Arc<Store<Pod>>,
    /// Daemons inspect only pods of workloads.
    pub(crate) workloads: Workloads,
    /// And pods that have containers of one of these.
    sidecarsets: Arc<Store<Watched<SidecarSet>>>,
    /// And pods whose containers one of these has restarted.
    requests: Arc<Store<Watched<ContainerRecreateRequest>>>,
    nodeimages: Arc<Store<Watched<NodeImage>>>,
    jobs: Arc<Store<Watched<ImagePullJob>>>,
    nodes: Arc<Store<Watched<Node>>>,
    /// Joining nodes pull the images of workloads. During a rollout the revisions from before it
    /// count, too.
    revisions: Arc<Store<Watched<Revision>>>,
}

impl Controller for NodeImageController {
    const RESOURCE: Resource = NODE_IMAGES;
    const NAME: &'static str = "nodeimage";

    /// Without daemons these objects have no use.
    fn is_possible(gates: Gates) -> bool {
        gates.has(Gate::KruiseDaemon)
    }

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            pods: reader.read(),
            workloads: Workloads {
                clonesets: reader.read(),
                daemonsets: reader.read(),
                statefulsets: reader.read(),
            },
            sidecarsets: reader.read(),
            requests: reader.read(),
            nodeimages: reader.read(),
            jobs: reader.read(),
            nodes: reader.read(),
            revisions: reader.read(),
        }
    }

    /// Wakes a NodeImage when it, its node, a pod of its node that is being updated, or a job that
    /// asks for its images changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, gone) = (queue.clone(), context.clone());
        self.nodes.on_change(move |change| match change {
            Change::Applied { old, new }
                if Node::concerns(old.as_ref().map(|old| &*old.0), &new.0) =>
            {
                to.add(Key::of(&**new))
            }
            Change::Deleted { old } => {
                gone.expectations.forget(old.uid());
                to.add(Key::of(&**old));
            }
            Change::Applied { .. } | Change::Synced => {}
        });
        let (to, gone) = (queue.clone(), context.clone());
        self.nodeimages.on_change(move |change| {
            if let Change::Deleted { old } = change {
                gone.expectations.forget(old.uid());
            }
            each(change, |image| to.add(Key::of(image)));
        });
        wake_for_pods(self, queue);
        wake_for_requests(self, queue);
        wake_for_workloads(self, &self.workloads.clonesets, queue);
        wake_for_workloads(self, &self.workloads.daemonsets, queue);
        wake_for_workloads(self, &self.workloads.statefulsets, queue);
        wake_for_ended_waits(self, queue);
        wake_for_jobs(self, queue);
    }

    /// One round for one node.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let (node, image) = (
            self.nodes.get("", &key.name),
            self.nodeimages.get("", &key.name),
        );
        // An object that cannot be read is not gone: without its node the NodeImage would be
        // deleted.
        let is_unread = node.is_none() && self.nodes.unreadable("", &key.name).is_some()
            || image.is_none() && self.nodeimages.unreadable("", &key.name).is_some();
        if is_unread {
            return Next::Done;
        }
        let owner = match (&image, &node) {
            (Some(image), _) => Owner::of(&**image),
            (None, Some(node)) => Owner::of(&**node),
            (None, None) => return Next::Done,
        };
        if let Err(next) = context.settled(&owner.uid).await {
            return next;
        }
        let (mut jobs, mut unreadable_jobs) = (Vec::new(), Vec::new());
        for (namespace, name) in image.iter().flat_map(|image| owners(&image.0)) {
            match self.jobs.get(namespace, name) {
                Some(job) => jobs.push(job.0.clone()),
                None => unreadable_jobs.extend(
                    self.jobs
                        .unreadable(namespace, name)
                        .map(|odd| odd.uid.clone()),
                ),
            }
        }
        // Until the NodeImage existed, expectations were kept under its node.
        if let (Some(_), Some(node)) = (&image, &node) {
            context.expectations.forget(node.uid());
        }
        let snapshot = Snapshot {
            name: key.name.to_string(),
            node: node.map(|node| node.0.clone()),
            image: image.as_ref().map(|image| image.0.clone()),
            pods: managed_pods(self, &key.name),
            requested: requested(self, &key.name),
            jobs,
            unreadable_jobs,
            join: is_joining(image.as_ref().map(|image| &*image.0))
                .then(|| self.join(context.gates)),
        };
        let plan = decide(&snapshot, Timestamp::now());
        let outcome = context.executor.act(&plan, &owner).await;
        image
            .iter()
            .for_each(|image| context.forget_if_gone(&self.nodeimages, &**image));
        next(&plan, &outcome, Ok(false))
    }
}

impl NodeImageController {
    /// All images that a joining node is to pull, always in the same order.
    fn join(&self, gates: Gates) -> Join {
        let mut clone_sets: Vec<_> = (self
            .workloads
            .clonesets
            .by_index(&PREPULLED_CLONE_SETS, PREPULLED)
            .iter())
        .map(|set| (set.0.clone(), self.current_revision(set)))
        .collect();
        clone_sets.sort_by_cached_key(|(set, _)| {
            (set.metadata.namespace.clone(), set.metadata.name.clone())
        });
        let mut daemon_sets: Vec<_> = (self
            .workloads
            .daemonsets
            .by_index(&PREPULLED_DAEMON_SETS, PREPULLED)
            .iter())
        .map(|set| (set.0.clone(), self.kept_revisions(set)))
        .collect();
        daemon_sets.sort_by_cached_key(|(set, _)| {
            (set.metadata.namespace.clone(), set.metadata.name.clone())
        });
        let jobs = self.jobs.all().iter().map(|job| job.0.clone()).collect();
        Join {
            jobs,
            clone_sets,
            daemon_sets,
            gates,
        }
    }

    /// The revision that a rollout replaces, while there is a rollout: new pods may get it, too.
    fn current_revision(&self, set: &Watched<CloneSet>) -> Option<Arc<Revision>> {
        let status = set
            .0
            .status
            .as_ref()
            .filter(|status| status.current_revision != status.update_revision)?;
        let revision = self
            .revisions
            .get(set.namespace(), &status.current_revision)?;
        let owns = revision
            .owner()
            .is_some_and(|owner| owner_key(set).owns(set.namespace(), &owner));
        owns.then(|| revision.0.clone())
    }

    /// The revisions that nodes keep when a rollout leaves them out: new nodes may get them, too.
    fn kept_revisions(&self, set: &Watched<DaemonSet>) -> Vec<Arc<Revision>> {
        if !holds_revision(&set.0) {
            return Vec::new();
        }
        let owner = owner_key(set);
        let mut revisions: Vec<_> = self
            .revisions
            .owned_by(&owner)
            .iter()
            .map(|revision| revision.0.clone())
            .collect();
        revision::sort(&mut revisions);
        kept(&self.pods.owned_by(&owner), &revisions)
    }
}

/// The workloads that own pods.
pub(crate) struct Workloads {
    pub(crate) clonesets: Arc<Store<Watched<CloneSet>>>,
    pub(crate) daemonsets: Arc<Store<Watched<DaemonSet>>>,
    pub(crate) statefulsets: Arc<Store<Watched<StatefulSet>>>,
}

impl Workloads {
    /// Does one of them manage the object?
    fn manage(&self, metadata: &Metadata) -> bool {
        is_managed(&self.clonesets, metadata)
            || is_managed(&self.daemonsets, metadata)
            || is_managed(&self.statefulsets, metadata)
    }
}

/// Wakes the NodeImages of a workload's pods when the workload comes or goes, because daemons
/// inspect only pods of workloads.
fn wake_for_workloads<T: CustomResource>(
    reads: &NodeImageController,
    workloads: &Store<Watched<T>>,
    queue: &Arc<Queue<Key>>,
) {
    let (to, pods, images) = (queue.clone(), reads.pods.clone(), reads.nodeimages.clone());
    workloads.on_change(move |change| {
        let set = match change {
            Change::Applied { old: None, new } => new,
            Change::Deleted { old } => old,
            Change::Applied { .. } | Change::Synced => return,
        };
        for pod in pods.owned_by(&owner_key(&**set)) {
            let node = &pod.spec.node_name;
            if images
                .get("", node)
                .is_some_and(|image| bears_on(&pod, &image.0))
            {
                to.add(Key::new("", node));
            }
        }
    });
}

/// Wakes the NodeImage of a pod that it may have to inspect, or that a request names.
fn wake_for_pods(reads: &NodeImageController, queue: &Arc<Queue<Key>>) {
    let (to, images, requests) = (
        queue.clone(),
        reads.nodeimages.clone(),
        reads.requests.clone(),
    );
    reads.pods.on_change(move |change| {
        each(change, |pod| {
            let node = &pod.spec.node_name;
            let is_requested = || {
                !requests_of_pod(&requests, &pod.metadata.namespace, &pod.metadata.name).is_empty()
            };
            // A node without a NodeImage is reconciled when it gets one.
            if images
                .get("", node)
                .is_some_and(|image| bears_on(pod, &image.0) || is_requested())
            {
                to.add(Key::new("", node));
            }
        });
    });
}

/// Wakes the NodeImages that ask for a job's image when the job changes or goes.
fn wake_for_jobs(reads: &NodeImageController, queue: &Arc<Queue<Key>>) {
    let (to, images) = (queue.clone(), reads.nodeimages.clone());
    reads.jobs.on_change(move |change| {
        let job = match change {
            Change::Deleted { old } => old,
            Change::Applied {
                old: Some(old),
                new,
            } if job_bears_on(&old.0, &new.0) => new,
            Change::Applied { .. } | Change::Synced => return,
        };
        for image in images
            .all()
            .iter()
            .filter(|image| is_requested_by(&image.0, job.uid()))
        {
            to.add(Key::of(&**image));
        }
    });
}

/// Wakes the NodeImages of joining nodes that may still wait for a job, when the job changes or
/// goes.
fn wake_for_ended_waits(reads: &NodeImageController, queue: &Arc<Queue<Key>>) {
    let (to, images) = (queue.clone(), reads.nodeimages.clone());
    reads.jobs.on_change(move |change| {
        let ends = match change {
            Change::Deleted { old } => may_end_a_wait(&old.0, None),
            Change::Applied {
                old: Some(old),
                new,
            } => may_end_a_wait(&old.0, Some(&new.0)),
            Change::Applied { old: None, .. } | Change::Synced => false,
        };
        if ends {
            images
                .all()
                .iter()
                .filter(|image| is_joining(Some(&image.0)))
                .for_each(|image| to.add(Key::of(&**image)));
        }
    });
}

/// Wakes the NodeImage of a request's pod when the request changes, and those that still ask for
/// one that is gone.
fn wake_for_requests(reads: &NodeImageController, queue: &Arc<Queue<Key>>) {
    let (to, pods, images) = (queue.clone(), reads.pods.clone(), reads.nodeimages.clone());
    reads.requests.on_change(move |change| {
        each(change, |request| {
            let pod = pods.get(request.namespace(), &request.0.spec.pod_name);
            let node = pod
                .map(|pod| pod.spec.node_name.clone())
                .filter(|node| images.get("", node).is_some());
            node.iter().for_each(|node| to.add(Key::new("", node)));
        });
    });
}

/// The pods of a node that requests name, with all of these.
fn requested(reads: &NodeImageController, node: &str) -> Vec<Requested> {
    if reads.requests.is_empty() {
        return Vec::new();
    }
    let pods = reads.pods.by_index(&pods::BY_NODE, node).into_iter();
    let with = pods.map(|pod| {
        let requests =
            requests_of_pod(&reads.requests, &pod.metadata.namespace, &pod.metadata.name);
        Requested { pod, requests }
    });
    with.filter(|requested| !requested.requests.is_empty())
        .collect()
}

/// The pods of a node that workloads in the store manage, or that have marked containers of
/// SidecarSets in the store. Annotations alone are no proof, because each user who may create pods
/// may write them.
pub(crate) fn managed_pods(reads: &NodeImageController, node: &str) -> Vec<Arc<Pod>> {
    let mut pods = reads.pods.by_index(&pods::BY_NODE, node);
    let has = |pod: &Pod, set: &str| {
        reads
            .sidecarsets
            .get("", set)
            .is_some_and(|set| is_injected(pod, set.name()) && has_container(pod, &set.0.spec))
    };
    let is_given = |pod: &Pod| sidecars::written(pod).keys().any(|set| has(pod, set));
    pods.retain(|pod| reads.workloads.manage(&pod.metadata) || is_given(pod));
    pods
}

#[cfg(test)]
mod tests;
