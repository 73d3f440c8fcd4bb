//! The stores that a workload with pods reads besides its own, and the changes that wake it: the
//! same for every such kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::fields::template::PodTemplate;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::store::event::Odd;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Owned, Store};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::images::predownload::{brings_images, waits_for_images};
use berth_workload::objects::claim::Claim;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::owner::{self, OwnerKey, OwnerKind, Reference};
use berth_workload::objects::pod::{Metadata, Pod};
use berth_workload::update::pod_order::spread;
use berth_workload::update::podset::adopt::Orphans;
use berth_workload::update::podset::{Unreadable, split_by_selector};
use berth_workload::update::revision::{self, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::{CustomResource, ORPHANED_CLAIMS, ORPHANED_REVISIONS, Watched};

/// The stores of objects that belong to workloads that own pods.
pub(crate) struct PodSetReads {
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) revisions: Arc<Store<Watched<Revision>>>,
    pub(crate) claims: Arc<Store<Watched<Claim>>>,
    pub(crate) nodeimages: Arc<Store<Watched<NodeImage>>>,
    pub(crate) jobs: Arc<Store<Watched<ImagePullJob>>>,
    /// Pods that are spread best over nodes stay, so the nodes are read.
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
}

/// The objects of one workload, as the stores have them.
pub(crate) struct Observed {
    /// Its pods that its selector matches, those being deleted included.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Its pods that its selector does not match any more.
    pub(crate) strays: Vec<Arc<Pod>>,
    /// Sorted, the oldest first.
    pub(crate) revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons of the pods' nodes report.
    pub(crate) node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// By name: the nodes of the pods, where the template says how its pods are spread over them.
    pub(crate) nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// `None` if there is no such kind.
    pub(crate) jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// The claims that it, or one of its pods, owns.
    pub(crate) claims: Vec<Arc<Claim>>,
    /// Its pods, revisions and claims that cannot be read.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl PodSetReads {
    pub(crate) fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            pods: reader.read(),
            revisions: reader.read(),
            claims: reader.read(),
            nodeimages: reader.read(),
            jobs: reader.read(),
            nodes: reader.read(),
        }
    }

    /// Wakes a workload of this kind when something changes that belongs to it.
    pub(crate) fn wake<T: CustomResource>(
        &self,
        workloads: &Arc<Store<Watched<T>>>,
        queue: &Arc<Queue<Key>>,
    ) {
        let kind = <T as CustomResource>::RESOURCE.owner_kind();
        let to = queue.clone();
        self.pods
            .on_change(move |change| each(change, |pod| wake_owner(&to, kind, &pod.metadata)));
        let to = queue.clone();
        self.revisions.on_change(move |change| {
            each(change, |revision| {
                wake_owner(&to, kind, &revision.0.metadata)
            })
        });
        self.wake_for_claims(kind, queue);
        self.wake_for_answers(kind, queue);
        self.wake_for_jobs(kind, queue);
        self.wake_for_images(workloads, queue);
        self.wake_for_unreadable(kind, queue);
    }

    /// A claim that a pod owns wakes the pod's owner.
    fn wake_for_claims(&self, kind: OwnerKind, queue: &Arc<Queue<Key>>) {
        let (to, pods) = (queue.clone(), self.pods.clone());
        self.claims.on_change(move |change| {
            each(change, |claim| {
                let metadata = &claim.0.metadata;
                wake_owner(&to, kind, metadata);
                for reference in metadata.owner_references.iter().map(Reference::from) {
                    let pod = pods.get(&metadata.namespace, reference.name);
                    let owns =
                        |pod: &Arc<Pod>| owner_key(&**pod).owns(&metadata.namespace, &reference);
                    pod.filter(owns)
                        .iter()
                        .for_each(|pod| wake_owner(&to, kind, &pod.metadata));
                }
            });
        });
    }

    /// A daemon's answer about containers is for the pods whose update waits for it.
    fn wake_for_answers(&self, kind: OwnerKind, queue: &Arc<Queue<Key>>) {
        let (to, pods) = (queue.clone(), self.pods.clone());
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
                wake_owner(&to, kind, &pod.metadata);
            }
        });
    }

    /// Wakes a workload when an ImagePullJob of it comes or goes.
    fn wake_for_jobs(&self, kind: OwnerKind, queue: &Arc<Queue<Key>>) {
        let to = queue.clone();
        self.jobs.on_change(move |change| {
            let job = match change {
                Change::Deleted { old } => old,
                Change::Applied { old, new }
                    if old
                        .as_ref()
                        .is_none_or(|old| old.terminating() != new.terminating()) =>
                {
                    new
                }
                Change::Applied { .. } | Change::Synced => return,
            };
            if let Some(owner) = job.owner().filter(|owner| kind.is_of(owner)) {
                to.add(Key::new(job.namespace(), owner.name));
            }
        });
    }

    /// Wakes a workload when a node gets an image that its updates may wait for.
    fn wake_for_images<T: CustomResource>(
        &self,
        workloads: &Arc<Store<Watched<T>>>,
        queue: &Arc<Queue<Key>>,
    ) {
        let kind = <T as CustomResource>::RESOURCE.owner_kind();
        let (to, pods, workloads) = (queue.clone(), self.pods.clone(), workloads.clone());
        self.nodeimages.on_change(move |change| {
            let Change::Applied { old, new } = change else {
                return;
            };
            if !brings_images(old.as_ref().map(|old| &*old.0), &new.0) {
                return;
            }
            for pod in pods.by_index(&pods::BY_NODE, new.name()) {
                let Some(owner) = managed_by(kind, &pod.metadata) else {
                    continue;
                };
                let workload = workloads.get(&pod.metadata.namespace, owner.name);
                if workload.is_some_and(|workload| waits_for_images(workload.0.meta())) {
                    to.add(Key::new(&pod.metadata.namespace, owner.name));
                }
            }
        });
    }

    /// Wakes a workload when one of its objects can no longer be read, or when an object that could
    /// not be read is gone.
    fn wake_for_unreadable(&self, kind: OwnerKind, queue: &Arc<Queue<Key>>) {
        let (to, pods) = (queue.clone(), self.pods.clone());
        let wake = Arc::new(move |odd: &Odd| {
            for reference in odd.owners.iter().map(Reference::from) {
                if kind.is_of(&reference) {
                    to.add(Key::new(&odd.namespace, reference.name));
                } else if owner::POD.is_of(&reference) {
                    let pod = pods.get(&odd.namespace, reference.name);
                    pod.iter()
                        .for_each(|pod| wake_owner(&to, kind, &pod.metadata));
                }
            }
        });
        let of_pods = wake.clone();
        self.pods.on_unreadable(move |odd| of_pods(odd));
        let of_revisions = wake.clone();
        self.revisions.on_unreadable(move |odd| of_revisions(odd));
        self.claims.on_unreadable(move |odd| wake(odd));
    }

    /// All objects of a workload, from the stores alone.
    pub(crate) fn observe(
        &self,
        owner: &OwnerKey<'_>,
        selector: &LabelSelector,
        template: &PodTemplate,
        gates: Gates,
    ) -> Observed {
        let pods = self.pods.owned_by(owner);
        let owned = self.revisions.owned_by(owner);
        let mut revisions: Vec<_> = owned.iter().map(|revision| revision.0.clone()).collect();
        revision::sort(&mut revisions);
        let node_images = self.node_images(gates, &pods);
        let nodes = self.nodes_of(template, &pods);
        let claims = self.claims_of(owner, &pods);
        let unreadable = self.unreadable_of(owner, &pods);
        let jobs = || {
            self.jobs
                .owned_by(owner)
                .iter()
                .map(|job| job.0.clone())
                .collect()
        };
        let jobs = (!self.jobs.is_missing()).then(jobs);
        let (pods, strays) = split_by_selector(selector, pods);
        Observed {
            pods,
            strays,
            revisions,
            node_images,
            nodes,
            jobs,
            claims,
            unreadable,
        }
    }

    /// The reports of the daemons of the pods' nodes.
    fn node_images(&self, gates: Gates, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Arc<NodeImage>> {
        // Without daemons the content of a NodeImage is outdated.
        if !gates.has(Gate::KruiseDaemon) {
            return BTreeMap::new();
        }
        by_node(pods, |name| {
            self.nodeimages.get("", name).map(|image| image.0.clone())
        })
    }

    fn nodes_of(&self, template: &PodTemplate, pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Arc<Node>> {
        if !spread::is_constrained(template) {
            return BTreeMap::new();
        }
        by_node(pods, |name| {
            self.nodes.get("", name).map(|node| node.0.clone())
        })
    }

    /// The claims of the workload and of its pods.
    fn claims_of(&self, owner: &OwnerKey<'_>, pods: &[Arc<Pod>]) -> Vec<Arc<Claim>> {
        let owners = std::iter::once(*owner).chain(pods.iter().map(|pod| owner_key(&**pod)));
        let claims = owners.flat_map(|owner| self.claims.owned_by(&owner));
        claims.map(|claim| claim.0.clone()).collect()
    }

    fn unreadable_of(&self, owner: &OwnerKey<'_>, pods: &[Arc<Pod>]) -> Vec<Unreadable> {
        let mut all = unreadable_in(&self.pods, owner);
        all.extend(unreadable_in(&self.revisions, owner));
        all.extend(unreadable_in(&self.claims, owner));
        for pod in pods {
            all.extend(unreadable_in(&self.claims, &owner_key(&**pod)));
        }
        all
    }

    /// The objects of a namespace without a controller.
    pub(crate) fn orphaned(&self, namespace: &str) -> Orphans {
        let claims = self.claims.by_index(&ORPHANED_CLAIMS, namespace);
        let revisions = self.revisions.by_index(&ORPHANED_REVISIONS, namespace);
        Orphans {
            pods: self.pods.by_index(&pods::ORPHANS, namespace),
            claims: claims.iter().map(|claim| claim.0.clone()).collect(),
            revisions: revisions
                .iter()
                .map(|revision| revision.0.clone())
                .collect(),
        }
    }
}

/// The owner of this kind that manages an object, if one does.
fn managed_by(kind: OwnerKind, metadata: &Metadata) -> Option<Reference<'_>> {
    metadata
        .controller()
        .map(Reference::from)
        .filter(|reference| kind.is_of(reference))
}

/// Wakes the owner by its name, in the object's namespace. The reconcile of the workload checks
/// whether it really owns the object.
pub(crate) fn wake_owner(queue: &Queue<Key>, kind: OwnerKind, metadata: &Metadata) {
    if let Some(owner) = managed_by(kind, metadata) {
        queue.add(Key::new(&metadata.namespace, owner.name));
    }
}

/// One object for each node of the pods, with one lookup for each node.
pub(crate) fn by_node<T>(
    pods: &[Arc<Pod>],
    get: impl Fn(&str) -> Option<Arc<T>>,
) -> BTreeMap<Box<str>, Arc<T>> {
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

/// The unreadable objects of one owner in a store.
pub(crate) fn unreadable_in<T: Object>(store: &Store<T>, owner: &OwnerKey<'_>) -> Vec<Unreadable> {
    let of = |odd: &Odd| Unreadable {
        kind: T::RESOURCE.kind,
        name: odd.name.clone(),
        error: odd.error.clone(),
    };
    store
        .unreadable_of(owner)
        .iter()
        .map(|odd| of(odd))
        .collect()
}
