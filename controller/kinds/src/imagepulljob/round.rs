//! The progress of the job, node by node.

use std::collections::BTreeSet;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::images::pull::{Nodes, Settings};
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::node::image::entry::{self, Standing};
use berth_workload::objects::node::image::room::{Full, PullRequest, room};
use berth_workload::objects::node::image::{is_requested_by, name};
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;

/// The job's nodes by their progress, each list sorted by name.
#[derive(Debug, Default)]
pub(super) struct Round<'a> {
    /// All nodes that must pull.
    pub(super) desired: usize,
    /// Nodes that need an entry, in this order.
    pub(super) open: Vec<&'a NodeImage>,
    /// Nodes that need an entry, but whose NodeImages take no further pull of the job's namespace
    /// now.
    pub(super) full: Vec<(&'a str, Full)>,
    /// Nodes that need an entry once an older entry of the job is gone.
    pub(super) waiting: Vec<&'a str>,
    /// Nodes with an entry that have not finished.
    pub(super) active: Vec<&'a str>,
    /// Nodes that have the image.
    pub(super) succeeded: usize,
    /// Nodes that gave up, with the reason.
    pub(super) failed: Vec<(&'a str, &'a str)>,
    /// Nodes with entries that the job does not want any more.
    pub(super) strays: Vec<Stray<'a>>,
    /// Nodes that the job names and that do not exist.
    pub(super) missing: Vec<&'a str>,
    /// Nodes whose NodeImages cannot be read, so that the job cannot end.
    pub(super) unreadable: Vec<&'a str>,
    /// The time until the job gives up on the next daemon that does not answer.
    pub(super) silence: Option<SignedDuration>,
}

/// A node with entries that the job does not want any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stray<'a> {
    pub(super) node: &'a NodeImage,
    /// Whether the node is still one of the job's: an entry for its image stays.
    pub(super) wanted: bool,
}

impl<'a> Round<'a> {
    /// Reads every node.
    pub(super) fn of(snapshot: &'a Snapshot, settings: &Settings<'a>, now: Timestamp) -> Self {
        let uid = super::uid(&snapshot.job);
        let wanted = Wanted::of(snapshot, settings);
        let mut nodes: Vec<&NodeImage> = snapshot.node_images.iter().map(|node| &**node).collect();
        nodes.retain(|node| node.metadata.deletion_timestamp.is_none());
        nodes.sort_unstable_by_key(|node| name(node));
        let unreadable = wanted.unreadable(&snapshot.unreadable, &nodes);
        let mut missing = wanted.missing(&nodes);
        missing.retain(|name| !unreadable.contains(name));
        let mut round = Self {
            desired: unreadable.len(),
            missing,
            unreadable,
            ..Self::default()
        };
        // The entries of thousands of nodes are read only if there can be strays.
        let edited = snapshot.job.metadata.generation != Some(1);
        let request = PullRequest::of(&snapshot.job, &settings.image, &settings.tag);
        for node in nodes {
            let wanted = wanted.has(node);
            let stray = if wanted {
                edited && has_strays(node, settings, uid)
            } else {
                is_requested_by(node, uid)
            };
            if wanted {
                round.add(node, stray, &request, settings, uid, now);
            }
            if stray {
                round.strays.push(Stray { node, wanted });
            }
        }
        // Nodes whose daemon never reported anything come last, because they would block nodes that
        // can pull.
        round.open.sort_by_key(|node| node.status.is_none());
        round
    }

    /// Whether no node has anything left to do.
    pub(super) fn is_over(&self) -> bool {
        self.succeeded + self.failed.len() == self.desired
    }

    /// The reason why the job has no node at all; `None` if it has some.
    pub(super) fn without_nodes(&self, settings: &Settings<'_>) -> Option<&'static str> {
        let why = match settings.nodes {
            Nodes::All => "there is no NodeImage",
            Nodes::Named(_) | Nodes::Labelled(_) => "selector matches no node",
            Nodes::OfPods(_) => "podSelector matches no pod on a node",
        };
        (self.desired == 0).then_some(why)
    }

    /// The nodes that get an entry now.
    pub(super) fn next(&self, settings: &Settings<'_>) -> &[&'a NodeImage] {
        let busy = self.active.len() + self.strays.len();
        let slots = settings.parallelism(self.desired).saturating_sub(busy);
        &self.open[..slots.min(self.open.len())]
    }

    fn add(
        &mut self,
        node: &'a NodeImage,
        stray: bool,
        request: &PullRequest<'_>,
        settings: &Settings<'_>,
        uid: &str,
        now: Timestamp,
    ) {
        self.desired += 1;
        match entry::standing(node, &settings.image, &settings.tag, uid, now) {
            // The old entry is removed first, then the new one added, because a NodeImage takes one
            // patch at a time.
            Standing::NotRequested if stray => self.waiting.push(name(node)),
            Standing::NotRequested => match room(node, request) {
                Err(full) => self.full.push((name(node), full)),
                Ok(()) => self.open.push(node),
            },
            Standing::Active { silent_from } => {
                self.active.push(name(node));
                let wait = silent_from.map(|at| at.duration_since(now));
                self.silence = self.silence.into_iter().chain(wait).min();
            }
            Standing::Succeeded => self.succeeded += 1,
            Standing::Failed(why) => self.failed.push((name(node), why)),
        }
    }
}

/// Whether the job owns an entry that it does not want any more.
fn has_strays(node: &NodeImage, settings: &Settings<'_>, uid: &str) -> bool {
    node.spec.images.iter().any(|(image, of)| {
        of.tags.iter().any(|tag| {
            (*image != settings.image || tag.tag != settings.tag)
                && tag.owner_references.iter().any(|o| entry::is(o, uid))
        })
    })
}

/// The nodes that must pull, prepared for look-ups.
struct Wanted<'a, 'b> {
    nodes: &'b Nodes<'a>,
    of_pods: BTreeSet<&'a str>,
}

impl<'a, 'b> Wanted<'a, 'b> {
    fn of(snapshot: &'a Snapshot, settings: &'b Settings<'a>) -> Self {
        let nodes = &settings.nodes;
        let Nodes::OfPods(selector) = nodes else {
            return Self {
                nodes,
                of_pods: BTreeSet::new(),
            };
        };
        let matching = snapshot.pods.iter().filter(|pod| {
            in_namespace(&snapshot.job, &pod.metadata.namespace)
                && pod.is_active()
                && selector.matches(|key| pod.metadata.label(key))
        });
        Self {
            nodes,
            of_pods: matching.map(|pod| &*pod.spec.node_name).collect(),
        }
    }

    fn has(&self, node: &NodeImage) -> bool {
        self.nodes.have(node) || self.of_pods.contains(name(node))
    }

    /// Nodes that may be the job's, and whose NodeImages were never readable. Labels that cannot be
    /// read may match.
    fn unreadable(&self, unreadable: &'a [String], nodes: &[&NodeImage]) -> Vec<&'a str> {
        let is_wanted = |name: &str| match self.nodes {
            Nodes::All | Nodes::Labelled(_) => true,
            Nodes::Named(names) => names.contains(name),
            Nodes::OfPods(_) => self.of_pods.contains(name),
        };
        let is_known = |wanted: &str| {
            nodes
                .binary_search_by_key(&wanted, |node| name(node))
                .is_ok()
        };
        unreadable
            .iter()
            .map(|name| &**name)
            .filter(|name| is_wanted(name) && !is_known(name))
            .collect()
    }

    /// The named nodes without a NodeImage. `nodes` are sorted by name.
    fn missing(&self, nodes: &[&NodeImage]) -> Vec<&'a str> {
        let Nodes::Named(names) = self.nodes else {
            return Vec::new();
        };
        let absent = |wanted: &&&str| {
            nodes
                .binary_search_by_key(*wanted, |node| name(node))
                .is_err()
        };
        names.iter().filter(absent).copied().collect()
    }
}

/// Whether the job is in this namespace.
pub(super) fn in_namespace(job: &ImagePullJob, namespace: &str) -> bool {
    job.metadata.namespace.as_deref().unwrap_or_default() == namespace
}
