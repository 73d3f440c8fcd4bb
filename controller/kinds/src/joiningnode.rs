//! Nodes that register with a taint which keeps pods away until the nodes' images are there. The
//! controller removes the taint when the node's daemon reports how its first pulls ended, and after
//! a time limit in any case. No namespace holds the taint for long.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::image;
use berth_api::v1beta1::nodeimage::{ImageTagSpec, SyncStatus, SyncStatusPhase};
use berth_workload::objects::node::image::{NodeImage, entry, is_of_an_earlier_node};
use berth_workload::objects::node::{Node, Taint};
use berth_workload::objects::resource::NODES;
use berth_workload::plan::{Action, Event, Plan, Step, Target};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// The longest that a node waits for its images, from its creation.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// The part of `PATIENCE` that a node may need until its daemon pulls.
const START: SignedDuration = SignedDuration::from_mins(2);
/// The part of `PATIENCE` for each namespace whose images are missing. A tenant may name an image
/// of a registry that never answers.
const OF_NAMESPACE: SignedDuration = SignedDuration::from_mins(2);
/// Images that an event names at most.
const NAMED: usize = 3;

/// All that a decision about one node reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The node.
    pub node: Arc<Node>,
    /// The NodeImage of its name, if it exists.
    pub image: Option<Arc<NodeImage>>,
}

/// Whether the change of a node needs a decision. Its kubelet changes the node all the time.
pub fn concerns(old: Option<&Node>, new: &Node) -> bool {
    let is_another = |old: &Node| old.metadata.uid != new.metadata.uid || old.taints != new.taints;
    new.awaits_images() && old.is_none_or(is_another)
}

/// Whether the change of a NodeImage needs a decision about its node.
pub fn concerns_image(old: Option<&NodeImage>, new: &NodeImage) -> bool {
    let has_ended = first_sync(Some(new)).is_some() && first_sync(old) != first_sync(Some(new));
    has_ended || old.is_some_and(|old| patience(Some(old)) != patience(Some(new)))
}

/// How long a node waits for its images, from its creation: the fewer namespaces it waits for, the
/// shorter. Pulls that are not listed yet count as one namespace. A node waits for its daemon for
/// the whole time.
fn patience(image: Option<&NodeImage>) -> SignedDuration {
    let Some(image) = image else { return PATIENCE };
    let namespaces: BTreeSet<_> = open(image)
        .flat_map(|(_, entry)| namespaces(entry))
        .collect();
    let many = namespaces.len() + usize::from(!image.spec.first_pulls_listed);
    let of_namespaces = OF_NAMESPACE.saturating_mul(i32::try_from(many).unwrap_or(i32::MAX));
    if many == 0 {
        PATIENCE
    } else {
        START.saturating_add(of_namespaces).min(PATIENCE)
    }
}

/// The pulls that are not over, by image.
fn open(image: &NodeImage) -> impl Iterator<Item = (&String, &ImageTagSpec)> {
    let entries = image
        .spec
        .images
        .iter()
        .flat_map(|(name, of)| of.tags.iter().map(move |entry| (name, entry)));
    entries.filter(|(name, entry)| !entry::is_over(image, name, entry))
}

/// The namespaces of the owners of an entry.
fn namespaces(entry: &ImageTagSpec) -> BTreeSet<&str> {
    let of_owners = entry
        .owner_references
        .iter()
        .map(|owner| owner.namespace.as_deref().unwrap_or_default());
    let found: BTreeSet<_> = of_owners.collect();
    if found.is_empty() { [""].into() } else { found }
}

/// Decides whether the controller removes the taint now.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let (mut plan, node) = (Plan::default(), &snapshot.node);
    if !node.awaits_images() || node.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let image = snapshot
        .image
        .as_deref()
        .filter(|image| !is_of_an_earlier_node(image, node));
    let patience = patience(image);
    let left = node
        .metadata
        .creation_timestamp
        .map_or(SignedDuration::ZERO, |made| {
            patience - now.duration_since(made)
        });
    match first_sync(image) {
        Some(sync) => plan.add_stage("take taint", vec![take(node, ended(node, sync))]),
        None if left.is_positive() => {
            let why = missing(image);
            plan.wait(format!(
                "taint {} goes in {} s at the latest: {why}",
                taints(node),
                left.as_secs().max(1)
            ));
            plan.look_again_after(left);
        }
        None => {
            let minutes = patience.as_secs() / 60;
            let message = format!(
                "node {} has waited {minutes} minutes for its images: {}",
                name(node),
                missing(image)
            );
            let event = Event::warning("ImagesNotReadyTimedOut", message);
            plan.add_stage("take taint", vec![take(node, event)]);
        }
    }
    plan
}

/// How the node's first pulls ended; `None` while they have not.
fn first_sync(image: Option<&NodeImage>) -> Option<&SyncStatus> {
    image?
        .status
        .as_ref()?
        .first_sync_status
        .as_ref()
        .filter(|sync| sync.status.is_some())
}

fn ended(node: &Node, sync: &SyncStatus) -> Event {
    let name = name(node);
    if sync.status == Some(SyncStatusPhase::Succeeded) {
        let message = format!("node {name} has all images that it pulls when it joins");
        return Event::normal("ImagesReady", message);
    }
    let message = format!(
        "node {name} lacks images that it pulls when it joins: {}",
        sync.message
    );
    Event::warning("ImagesNotPulled", message)
}

/// The message about the objects that the node waits for.
fn missing(image: Option<&NodeImage>) -> String {
    let Some(image) = image else {
        return "it has no NodeImage; does Berth's daemon run there?".to_owned();
    };
    if !image.spec.first_pulls_listed {
        return "ImagePullJobs with completionPolicy.type Never have yet to ask it".to_owned();
    }
    let of_whom = |entry| {
        let namespaces: Vec<_> = namespaces(entry)
            .into_iter()
            .filter(|namespace| !namespace.is_empty())
            .collect();
        let more = if namespaces.len() > 1 {
            format!(" and {} more", namespaces.len() - 1)
        } else {
            String::new()
        };
        namespaces
            .first()
            .map_or_else(String::new, |first| format!(" of namespace {first}{more}"))
    };
    let open = open(image)
        .map(|(name, entry)| format!("{}{}", image::join(name, &entry.tag), of_whom(entry)));
    let open: Vec<_> = open.collect();
    if open.is_empty() {
        return "its daemon has yet to say that it is done".to_owned();
    }
    let more = if open.len() > NAMED {
        format!(" and {} more", open.len() - NAMED)
    } else {
        String::new()
    };
    format!(
        "it is not done with {}{more}",
        open[..open.len().min(NAMED)].join(", ")
    )
}

/// Removes these taints and no others, in the version of the node that the controller read.
fn take(node: &Node, why: Event) -> Step {
    let others: Vec<&Taint> = node
        .taints
        .iter()
        .filter(|taint| !taint.awaits_images())
        .collect();
    let others = if others.is_empty() {
        Value::Null
    } else {
        json!(others)
    };
    let action = Action::Patch {
        resource: NODES,
        target: Target::as_seen(&node.metadata),
        patch: json!({"spec": {"taints": others}}),
    };
    let reason = why.message.clone();
    let message = format!("{reason}; taint {} is taken away", taints(node));
    let failed = format!(
        "failed to take taint {} off node {}",
        taints(node),
        name(node)
    );
    Step {
        actions: vec![action],
        reason,
        done: Some(Event { message, ..why }),
        failed: Some(Event::warning("FailedTakeTaint", failed)),
    }
}

/// The taints that are removed, for messages.
fn taints(node: &Node) -> String {
    let own = node.taints.iter().filter(|taint| taint.awaits_images());
    own.map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect::<Vec<_>>()
        .join(", ")
}

fn name(node: &Node) -> &str {
    &node.metadata.name
}
