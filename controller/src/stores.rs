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
use berth_runtime::metrics::Metrics;
use berth_runtime::object::CLONE_SETS;
use berth_runtime::store::{SyncState, pods};
use berth_runtime::{CancellationToken, Index, Object, Resource, Store, feed};
use berth_workload::claim::Claim;
use berth_workload::nodeimage::Node;
use berth_workload::plan::Event;
use berth_workload::pod::{Metadata, Pod, spread};
use berth_workload::revision::Revision;
use kube::Client;

use crate::claims::{self, CLAIMS_BY_OWNER};
use crate::kinds::{Kind, Kinds};
use crate::overlapping;
use crate::unreadable::Tell;
use crate::watched::{Watched, controller_uid};

/// Revisions by the uid of the workload that they belong to.
pub(crate) const REVISIONS_BY_OWNER: Index<Watched<Revision>> =
    Index::new("owner", |revision| revision.0.metadata.controller().map(|owner| &*owner.uid));

/// ImagePullJobs by the uid of the object that made them.
pub(crate) const JOBS_BY_OWNER: Index<Watched<ImagePullJob>> =
    Index::new("owner", |job| controller_uid(&job.0.metadata));

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
            pods: Store::new(&[pods::BY_OWNER, pods::BY_NODE, pods::BY_NAMESPACE]),
            clonesets: Store::new(&[overlapping::BY_NAMESPACE]),
            revisions: Store::new(&[REVISIONS_BY_OWNER]),
            claims: Store::new(&[CLAIMS_BY_OWNER]),
            nodeimages: Store::new(&[]),
            jobs: Store::new(&[JOBS_BY_OWNER]),
            lists: Store::new(&[]),
            nodes: Store::new(&[]),
        }
    }

    /// Starts the feeds of what the controllers of these kinds read. Register every hook before.
    pub(crate) fn follow(
        &self,
        kinds: &Kinds,
        client: &Client,
        metrics: &Metrics,
        recorder: &Recorder,
        tell: &Tell,
        stop: &CancellationToken,
    ) {
        let follow = Follow { client, metrics, recorder, tell, stop };
        let any = |of: &[Kind]| of.iter().any(|kind| kinds.has(*kind));
        if any(&[Kind::CloneSet, Kind::NodeImage, Kind::ImagePullJob]) {
            follow.one(&self.pods, |_| true);
            follow.one(&self.nodeimages, |_| true);
        }
        if any(&[Kind::CloneSet]) {
            follow.one(&self.clonesets, |_| true);
            follow.one(&self.revisions, |revision| is_ours(&revision.0.metadata));
            follow.labelled(&self.claims, label::CLONESET_INSTANCE_ID, claims::is_kept);
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
            Kind::NodeImage => {
                vec![pods.sync_state(), nodeimages.sync_state(), jobs.sync_state(), self.nodes.sync_state()]
            }
            Kind::ImagePullJob => vec![pods.sync_state(), nodeimages.sync_state(), jobs.sync_state()],
            Kind::ImageListPullJob => vec![self.lists.sync_state(), jobs.sync_state()],
        }
    }

    /// Looks once at what decisions about CloneSets of one namespace read.
    ///
    /// # Errors
    /// The server's answer.
    pub(crate) async fn look(&self, client: &Client, namespace: &str) -> Result<(), Failed> {
        load(client, &self.pods, namespace, "", |_| true).await?;
        load(client, &self.clonesets, namespace, "", |_| true).await?;
        load(client, &self.revisions, namespace, "", |revision| is_ours(&revision.0.metadata)).await?;
        load(client, &self.claims, namespace, label::CLONESET_INSTANCE_ID, claims::is_kept).await?;
        load(client, &self.jobs, namespace, "", |_| true).await?;
        load(client, &self.nodeimages, "", "", |_| true).await?;
        // Only a template that spreads its pods asks where its nodes are.
        let sets = self.clonesets.all();
        if sets.iter().any(|set| spread::is_constrained(&set.0.spec.template.0)) {
            load(client, &self.nodes, "", "", |_| true).await
        } else {
            Ok(())
        }
    }
}

/// Revisions of other workloads are never held: there are as many as ten of each.
pub(crate) fn is_ours(metadata: &Metadata) -> bool {
    metadata
        .controller()
        .is_some_and(|owner| owner.api_version.starts_with("apps.kruise.io/") && &*owner.kind == "CloneSet")
}

struct Follow<'a> {
    client: &'a Client,
    metrics: &'a Metrics,
    recorder: &'a Recorder,
    tell: &'a Tell,
    stop: &'a CancellationToken,
}

impl Follow<'_> {
    fn one<T: Object>(&self, store: &Arc<Store<T>>, keep: fn(&T) -> bool) {
        self.labelled(store, "", keep);
    }

    /// Only what has this label; everything if it is empty.
    fn labelled<T: Object>(&self, store: &Arc<Store<T>>, label: &str, keep: fn(&T) -> bool) {
        let metrics = self.metrics.feed(T::RESOURCE.kind);
        let odd = Some(unreadable(T::RESOURCE, self.recorder.clone(), self.tell.clone()));
        let options = feed::Options { keep, odd, metrics, labels: label.to_owned(), ..feed::Options::default() };
        tokio::spawn(feed::run(self.client.clone(), store.clone(), options, self.stop.clone()));
    }
}

/// Says on the object itself that nothing is done for it: what the schema lets through and the types do not.
fn unreadable(resource: Resource, recorder: Recorder, tell: Tell) -> feed::OddHook {
    Arc::new(move |odd: &feed::Odd| {
        let feed::Odd { namespace, name, uid, error, .. } = odd.clone();
        let message = format!(
            "{} {name} cannot be read, and what Berth last read of it stays in force until it changes: {error}",
            resource.kind
        );
        if resource == CLONE_SETS {
            tell(odd, message.clone());
        }
        let event = Event { warning: true, reason: "Unreadable", message };
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
