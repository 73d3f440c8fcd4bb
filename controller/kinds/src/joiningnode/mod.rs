//! Nodes that register with a taint which keeps pods away until their images are there: it is taken away when the node's
//! daemon says how its first pulls ended, and in time whatever it says.

use std::sync::Arc;

use berth_api::image;
use berth_api::v1beta1::nodeimage::{SyncStatus, SyncStatusPhase};
use berth_workload::node::image::{NodeImage, entry, is_of_an_earlier_node};
use berth_workload::node::{Node, Taint};
use berth_workload::plan::{Action, Event, Plan, Step, Target};
use berth_workload::resource::NODES;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// The longest that a node waits for its images, from its creation.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// Images that an event names at most.
const NAMED: usize = 3;

/// All that a decision about one node reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The node.
    pub node: Arc<Node>,
    /// The NodeImage of its name, where there is one.
    pub image: Option<Arc<NodeImage>>,
}

/// Is there a reason to look at a node that changed? Its kubelet changes it all the time.
pub fn concerns(old: Option<&Node>, new: &Node) -> bool {
    let is_another = |old: &Node| old.metadata.uid != new.metadata.uid || old.taints != new.taints;
    new.awaits_images() && old.is_none_or(is_another)
}

/// Is there a reason to look at the node of a NodeImage that changed?
pub fn concerns_image(old: Option<&NodeImage>, new: &NodeImage) -> bool {
    first_sync(Some(new)).is_some() && first_sync(old) != first_sync(Some(new))
}

/// Decides whether the taint goes now.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let (mut plan, node) = (Plan::default(), &snapshot.node);
    if !node.awaits_images() || node.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let image = snapshot.image.as_deref().filter(|image| !is_of_an_earlier_node(image, node));
    let left =
        node.metadata.creation_timestamp.map_or(SignedDuration::ZERO, |made| PATIENCE - now.duration_since(made));
    match first_sync(image) {
        Some(sync) => plan.add_stage("take taint", vec![take(node, ended(node, sync))]),
        None if left.is_positive() => {
            let why = missing(image);
            plan.wait(format!("taint {} goes in {} s at the latest: {why}", taints(node), left.as_secs().max(1)));
            plan.look_again_after(left);
        }
        None => {
            let minutes = PATIENCE.as_secs() / 60;
            let message =
                format!("node {} has waited {minutes} minutes for its images: {}", name(node), missing(image));
            let event = Event { warning: true, reason: "ImagesNotReadyTimedOut", message };
            plan.add_stage("take taint", vec![take(node, event)]);
        }
    }
    plan
}

/// How the node's first pulls ended, once they have.
fn first_sync(image: Option<&NodeImage>) -> Option<&SyncStatus> {
    image?.status.as_ref()?.first_sync_status.as_ref().filter(|sync| sync.status.is_some())
}

fn ended(node: &Node, sync: &SyncStatus) -> Event {
    let name = name(node);
    if sync.status == Some(SyncStatusPhase::Succeeded) {
        let message = format!("node {name} has all images that it pulls when it joins");
        return Event { warning: false, reason: "ImagesReady", message };
    }
    let message = format!("node {name} lacks images that it pulls when it joins: {}", sync.message);
    Event { warning: true, reason: "ImagesNotPulled", message }
}

/// What the node waits for.
fn missing(image: Option<&NodeImage>) -> String {
    let Some(image) = image else { return "it has no NodeImage; does Berth's daemon run there?".to_owned() };
    if !image.spec.first_pulls_listed {
        return "ImagePullJobs with completionPolicy.type Never have yet to ask it".to_owned();
    }
    let entries = image.spec.images.iter().flat_map(|(name, of)| of.tags.iter().map(move |entry| (name, entry)));
    let open = entries.filter(|(name, entry)| !entry::is_over(image, name, entry));
    let open: Vec<_> = open.map(|(name, entry)| image::join(name, &entry.tag)).collect();
    if open.is_empty() {
        return "its daemon has yet to say that it is done".to_owned();
    }
    let more = if open.len() > NAMED { format!(" and {} more", open.len() - NAMED) } else { String::new() };
    format!("it is not done with {}{more}", open[..open.len().min(NAMED)].join(", "))
}

/// Takes away these taints and no others, from the node as it was seen.
fn take(node: &Node, why: Event) -> Step {
    let others: Vec<&Taint> = node.taints.iter().filter(|taint| !taint.awaits_images()).collect();
    let others = if others.is_empty() { Value::Null } else { json!(others) };
    let action = Action::Patch {
        resource: NODES,
        target: Target::as_seen(&node.metadata),
        patch: json!({"spec": {"taints": others}}),
    };
    let reason = why.message.clone();
    let message = format!("{reason}; taint {} is taken away", taints(node));
    let failed = format!("failed to take taint {} off node {}", taints(node), name(node));
    Step {
        actions: vec![action],
        reason,
        done: Some(Event { message, ..why }),
        failed: Some(Event { warning: true, reason: "FailedTakeTaint", message: failed }),
    }
}

/// The taints that go, for messages.
fn taints(node: &Node) -> String {
    let own = node.taints.iter().filter(|taint| taint.awaits_images());
    own.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect::<Vec<_>>().join(", ")
}

fn name(node: &Node) -> &str {
    &node.metadata.name
}
