//! Everything that the controller sees, and the feeds that keep it so.

use std::sync::Arc;

use berth_api::names::label;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::imagelistpulljob::ImageListPullJob;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::NodeImage;
use berth_runtime::client::Failed;
use berth_runtime::events::Recorder;
use berth_runtime::executor::Owner;
use berth_runtime::expectations::Expectations;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::owner_key;
use berth_runtime::store::Index;
use berth_runtime::store::{SyncState, pods};
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{Object, Owned, Resource, Store, feed};
use berth_workload::claim::Claim;
use berth_workload::cloneset::{Orphans, Unreadable};
use berth_workload::nodeimage::Node;
use berth_workload::owner::OwnerKey;
use berth_workload::plan::Event;
use berth_workload::pod::{Metadata, Pod, spread};
use berth_workload::revision::Revision;
use kube::Client;

use crate::kinds::{Kind, Kinds};
use crate::overlapping;
use crate::unreadable;
use crate::watched::{Watched, managing_set};

/// One store per kind, shared by all controllers.
#[derive(Clone)]
pub(crate) struct Stores {
    /// All pods.
    pub(crate) pods: Arc<Store<Pod>>,
    /// All CloneSets.
    pub(crate) clonesets: Arc<Store<Watched<CloneSet>>>,
    /// The revisions of CloneSets.
    pub(crate) revisions: Arc<Store<Watched<Revision>>>,
    /// The claims of CloneSets' pods.
    pub(crate) claims: Arc<Store<Watched<Claim>>>,
    /// All NodeImages.
    pub(crate) nodeimages: Arc<Store<Watched<NodeImage>>>,
    /// All ImagePullJobs.
    pub(crate) jobs: Arc<Store<Watched<ImagePullJob>>>,
    /// All ImageListPullJobs.
    pub(crate) lists: Arc<Store<Watched<ImageListPullJob>>>,
    /// All nodes.
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
}

impl Stores {
    /// Empty stores.
    pub(crate) fn new() -> Self {
        Self {
            pods: Store::with_owners(&[pods::BY_NODE, pods::BY_NAMESPACE, pods::ORPHANS]),
            clonesets: Store::new(&[overlapping::BY_NAMESPACE]),
            revisions: Store::with_owners(&[ORPHANED_REVISIONS]),
            claims: Store::with_owners(&[ORPHANED_CLAIMS]),
            nodeimages: Store::new(&[]),
            jobs: Store::with_owners(&[]),
            lists: Store::new(&[]),
            nodes: Store::new(&[]),
        }
    }

    /// Starts the feeds of what the controllers of these kinds read. Register every hook before.
    pub(crate) fn follow(&self, kinds: &Kinds, follow: &Follow<'_>) {
        let any = |of: &[Kind]| of.iter().any(|kind| kinds.has(*kind));
        if any(&[Kind::CloneSet, Kind::NodeImage, Kind::ImagePullJob]) {
            follow.one(&self.pods, |_| true);
            follow.one(&self.nodeimages, |_| true);
        }
        // Daemons are asked about pods of CloneSets only.
        if any(&[Kind::CloneSet, Kind::NodeImage]) {
            follow.one(&self.clonesets, |_| true);
        }
        if any(&[Kind::CloneSet]) {
            follow.one(&self.revisions, is_kept_revision);
            follow.labelled(&self.claims, label::CLONESET_INSTANCE_ID, is_kept_claim);
        }
        // Where pods are spread over nodes, those are to stay that spread best.
        if any(&[Kind::CloneSet, Kind::NodeImage]) {
            follow.one(&self.nodes, |_| true);
        }
        if any(&[Kind::CloneSet, Kind::NodeImage, Kind::ImagePullJob, Kind::ImageListPullJob]) {
            follow.one(&self.jobs, |_| true);
        }
        if any(&[Kind::ImageListPullJob]) {
            follow.one(&self.lists, |_| true);
        }
    }

    /// Set for each store that the controller of a kind reads, once it holds everything. A decision made on less would
    /// take for gone what is only not seen yet. A kind that the server does not know holds nothing up: there is none of it.
    pub(crate) fn sync_states(&self, kind: Kind) -> Vec<SyncState> {
        let (pods, jobs, nodeimages) = (&self.pods, &self.jobs, &self.nodeimages);
        match kind {
            Kind::CloneSet => vec![
                pods.sync_state(),
                self.clonesets.sync_state(),
                self.revisions.sync_state(),
                self.claims.sync_state(),
                nodeimages.sync_state(),
                jobs.sync_state(),
                self.nodes.sync_state(),
            ],
            Kind::NodeImage => vec![
                pods.sync_state(),
                self.clonesets.sync_state(),
                nodeimages.sync_state(),
                jobs.sync_state(),
                self.nodes.sync_state(),
            ],
            Kind::ImagePullJob => vec![pods.sync_state(), nodeimages.sync_state(), jobs.sync_state()],
            Kind::ImageListPullJob => vec![self.lists.sync_state(), jobs.sync_state()],
        }
    }

    /// The CloneSet that manages the object with this metadata, if the store has that very one: in the object's namespace,
    /// with the uid that the owner reference names.
    pub(crate) fn set_of(&self, metadata: &Metadata) -> Option<Arc<Watched<CloneSet>>> {
        let reference = managing_set(metadata)?;
        let set = self.clonesets.get(&metadata.namespace, reference.name)?;
        owner_key(&*set).owns(&metadata.namespace, &reference).then_some(set)
    }

    /// The claims of the CloneSet and of its pods.
    pub(crate) fn claims_of(&self, set: &Watched<CloneSet>, pods: &[Arc<Pod>]) -> Vec<Arc<Claim>> {
        let owners = std::iter::once(owner_key(set)).chain(pods.iter().map(|pod| owner_key(&**pod)));
        let claims = owners.flat_map(|owner| self.claims.owned_by(&owner));
        claims.map(|claim| claim.0.clone()).collect()
    }

    /// What an earlier CloneSet of this name may have left.
    pub(crate) fn orphans_of(&self, set: &Watched<CloneSet>) -> Orphans {
        let namespace = set.namespace();
        let pods = self.pods.by_index(&pods::ORPHANS, namespace);
        let claims = self.claims.by_index(&ORPHANED_CLAIMS, namespace);
        let revisions = self.revisions.by_index(&ORPHANED_REVISIONS, namespace);
        let claims = claims.iter().map(|claim| claim.0.clone()).collect();
        Orphans::of(&set.0, pods, claims, revisions.iter().map(|revision| revision.0.clone()).collect())
    }

    /// What of the CloneSet, and which claims of its pods, cannot be read.
    pub(crate) fn unreadable_of(&self, set: &Watched<CloneSet>, pods: &[Arc<Pod>]) -> Vec<Unreadable> {
        let owner = owner_key(set);
        let mut all = unreadable_in(&self.pods, &owner);
        all.extend(unreadable_in(&self.revisions, &owner));
        all.extend(unreadable_in(&self.claims, &owner));
        for pod in pods {
            all.extend(unreadable_in(&self.claims, &owner_key(&**pod)));
        }
        all
    }

    /// Looks once at what decisions about CloneSets of one namespace read.
    ///
    /// # Errors
    /// The server's answer.
    pub(crate) async fn look(&self, client: &Client, namespace: &str) -> Result<(), Failed> {
        load(client, &self.pods, namespace, "", |_| true).await?;
        load(client, &self.clonesets, namespace, "", |_| true).await?;
        load(client, &self.revisions, namespace, "", is_kept_revision).await?;
        load(client, &self.claims, namespace, label::CLONESET_INSTANCE_ID, is_kept_claim).await?;
        load(client, &self.jobs, namespace, "", |_| true).await?;
        load(client, &self.nodeimages, "", "", |_| true).await?;
        // Only a template that spreads its pods asks where its nodes are.
        let sets = self.clonesets.all();
        if sets.iter().any(|set| spread::is_constrained(&set.0.spec.template)) {
            load(client, &self.nodes, "", "", |_| true).await
        } else {
            Ok(())
        }
    }
}

/// By namespace, those that nobody controls.
const ORPHANED_REVISIONS: Index<Watched<Revision>> =
    Index::new("orphans", |revision| is_nobodys(&revision.0.metadata).then(|| revision.namespace()));
/// By namespace, those that neither a CloneSet nor a pod owns.
const ORPHANED_CLAIMS: Index<Watched<Claim>> = Index::new("orphans", |claim| {
    (claim.owner().is_none() && is_nobodys(&claim.0.metadata)).then(|| claim.namespace())
});

fn is_nobodys(metadata: &Metadata) -> bool {
    metadata.controller().is_none()
}

/// Revisions of other workloads are never held: there are as many as ten of each. Those of nobody may be taken over.
fn is_kept_revision(revision: &Watched<Revision>) -> bool {
    revision.owner().is_some() || is_nobodys(&revision.0.metadata)
}

/// Only claims with an instance id are asked for, so those of everybody else cost nothing, not even on the wire. Of those,
/// a CloneSet's, or a pod's that takes it along, or nobody's, which may be taken over.
fn is_kept_claim(claim: &Watched<Claim>) -> bool {
    claim.owner().is_some() || is_nobodys(&claim.0.metadata)
}

/// What every feed needs.
pub(crate) struct Follow<'a> {
    /// The apiserver.
    pub(crate) client: &'a Client,
    /// Where feeds count.
    pub(crate) metrics: &'a Metrics,
    /// To say of an object that it cannot be read.
    pub(crate) recorder: &'a Recorder,
    /// What is written is awaited in what is fed.
    pub(crate) expectations: &'a Expectations,
    /// The most bytes that the spec of an object of ours may have, as JSON text.
    pub(crate) object_max_bytes: usize,
    /// Where feeds run.
    pub(crate) tasks: &'a Supervisor,
}

impl Follow<'_> {
    fn one<T: Object>(&self, store: &Arc<Store<T>>, keep: fn(&T) -> bool) {
        self.labelled(store, "", keep);
    }

    /// Only what has this label; everything if it is empty.
    fn labelled<T: Object>(&self, store: &Arc<Store<T>>, label: &str, keep: fn(&T) -> bool) {
        let metrics = self.metrics.feed(T::RESOURCE.kind);
        let odd = Some(say_unreadable(T::RESOURCE, self.recorder.clone()));
        let object_max_bytes = self.object_max_bytes;
        let labels = label.to_owned();
        let options = feed::Options { keep, odd, metrics, labels, object_max_bytes, ..feed::Options::default() };
        self.expectations.follow_labelled(store, label);
        let feed = feed::run(self.client.clone(), store.clone(), options, self.tasks.stop().clone());
        self.tasks.spawn(format!("feed of {}", T::RESOURCE.kind), feed);
    }
}

/// Those of one owner in a store.
fn unreadable_in<T: Object>(store: &Store<T>, owner: &OwnerKey<'_>) -> Vec<Unreadable> {
    let of = |odd: &feed::Odd| Unreadable { kind: T::RESOURCE.kind, name: odd.name.clone(), error: odd.error.clone() };
    store.unreadable_of(owner).iter().map(|odd| of(odd)).collect()
}

/// Says of an object that nothing is done for it: what the schema lets through and the types do not.
fn say_unreadable(resource: Resource, recorder: Recorder) -> feed::OddHook {
    Arc::new(move |odd: &feed::Odd| {
        let event = Event { warning: true, reason: "Unreadable", message: unreadable::message(&resource, odd) };
        let feed::Odd { namespace, name, uid, .. } = odd.clone();
        recorder.record(&Owner { resource, namespace, name, uid }, &event);
    })
}

async fn load<T: Object>(
    client: &Client,
    store: &Arc<Store<T>>,
    namespace: &str,
    label: &str,
    keep: fn(&T) -> bool,
) -> Result<(), Failed> {
    let (namespace, labels) = (namespace.to_owned(), label.to_owned());
    let options = feed::Options { keep, namespace, labels, ..feed::Options::default() };
    feed::load(client.clone(), store.clone(), options).await
}
