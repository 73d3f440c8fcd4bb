//! Makes a plan from a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::names::{self, label};
use berth_api::v1beta1::imagepulljob::{CompletionPolicyType, ImagePullJob};
use berth_api::v1beta1::nodeimage::{ImageTagPullPolicy, ImageTagSpec};
use berth_workload::images::{prepull, pull};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::{NodeImage, entry, is_of_an_earlier_node, target};
use berth_workload::objects::pod::Metadata;
use berth_workload::objects::resource::NODE_IMAGES;
use berth_workload::plan::{Action, Event, IfExists, Plan, Step, Target};
use berth_workload::update::recreate::stop;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Map, Value, json};

use super::{Snapshot, inspect, is_joining, join};

/// Decides about a node's NodeImage.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let node = snapshot
        .node
        .as_deref()
        .filter(|node| node.metadata.deletion_timestamp.is_none());
    let Some(image) = snapshot.image.as_deref() else {
        // A node that never was ready may never be ready, and a virtual node has no runtime.
        if let Some(node) = node.filter(|node| node.ready && !node.is_virtual()) {
            let create = create(snapshot, node, now);
            plan.add_stage(
                "create",
                vec![Step::new(
                    create,
                    format!("node {} has no NodeImage", snapshot.name),
                )],
            );
        }
        return plan;
    };
    if image.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let fake = image.metadata.label(label::FAKE_NODE_IMAGE).is_some();
    match node {
        None if !fake => plan.add_stage(
            "delete",
            vec![delete(image, format!("node {} is gone", snapshot.name))],
        ),
        // Its reports of first pulls and images are of another machine.
        Some(node) if !fake && is_of_an_earlier_node(image, node) => {
            let why = format!(
                "NodeImage {} is of an earlier node of this name",
                snapshot.name
            );
            plan.add_stage("delete", vec![delete(image, why)]);
        }
        node => update(snapshot, image, node.filter(|_| !fake), &mut plan, now),
    }
    plan
}

fn delete(image: &NodeImage, why: String) -> Step {
    Step::new(
        Action::Delete {
            resource: NODE_IMAGES,
            target: Target::from(&image.metadata),
        },
        why,
    )
}

fn create(snapshot: &Snapshot, node: &Node, now: Timestamp) -> Action {
    let (name, labels) = (node.metadata.name.clone(), node.metadata.labels.clone());
    let image = NodeImage {
        metadata: Metadata {
            name,
            labels,
            ..Metadata::default()
        },
        ..NodeImage::default()
    };
    let listed = snapshot
        .join
        .as_ref()
        .map(|join| join::list(join, node, &image, now));
    // Usually no image must be pulled, and then no further write is needed.
    let is_all = listed.is_some_and(|listed| listed.is_all && listed.images.is_none());
    let spec = if is_all {
        json!({"firstPullsListed": true})
    } else {
        json!({})
    };
    let body = json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::V1BETA1),
        "kind": "NodeImage",
        "metadata": {"name": node.metadata.name, "labels": self::labels(node)},
        "spec": spec,
    });
    Action::Create {
        resource: NODE_IMAGES,
        body,
        if_exists: IfExists::IsFine,
    }
}

/// All differences in one patch, because each write triggers the node's daemon and every job.
fn update(
    snapshot: &Snapshot,
    image: &NodeImage,
    node: Option<&Node>,
    plan: &mut Plan,
    now: Timestamp,
) {
    let (mut metadata, mut spec, mut reasons) = (Map::new(), Map::new(), Vec::new());
    if let Some(change) = node.and_then(|node| relabel(image, node)) {
        metadata.insert("labels".to_owned(), change);
        reasons.push("its node has other labels".to_owned());
    }
    let entries = entries(snapshot, image, plan, now);
    // The first pulls are listed by the present entries and labels, so changes of these are written
    // first.
    if let Some(node) = node.filter(|_| reasons.is_empty() && entries.is_none()) {
        list_first_pulls(snapshot, image, node, &mut spec, &mut reasons, plan, now);
    }
    if let Some(images) = entries {
        let names = images.as_object().into_iter().flat_map(Map::keys);
        let names: Vec<_> = names.map(String::as_str).collect();
        reasons.push(format!(
            "entries of {} have other owners or limits, or are not wanted any more",
            names.join(", ")
        ));
        spec.insert("images".to_owned(), images);
    }
    let inspect::Questions { pods, left_out } = inspect::wanted(snapshot, image);
    if pods != image.spec.inspect_pods {
        reasons.push(format!("the daemon is to look at {} pods", pods.len()));
        spec.insert("inspectPods".to_owned(), json!(pods));
    }
    let stops = stop::wanted(&snapshot.requested, image, now);
    if stops.containers != image.spec.stop_containers {
        reasons.push(format!(
            "the daemon is to stop, or to look after, {} containers",
            stops.containers.len()
        ));
        spec.insert("stopContainers".to_owned(), json!(stops.containers));
    }
    stops
        .look_again
        .into_iter()
        .for_each(|wait| plan.look_again_after(wait));
    let parts = [("metadata", metadata), ("spec", spec)]
        .into_iter()
        .filter(|(_, part)| !part.is_empty());
    let patch: Map<_, _> = parts
        .map(|(name, part)| (name.to_owned(), Value::Object(part)))
        .collect();
    if !patch.is_empty() {
        let action = Action::Patch {
            resource: NODE_IMAGES,
            target: target(image),
            patch: Value::Object(patch),
        };
        plan.add_stage("update", vec![Step::new(action, reasons.join("; "))]);
    }
    let without_room = [
        ("PodsNotInspected", left_out),
        ("ContainersNotStopped", stops.left_out),
    ];
    for (reason, message) in without_room {
        plan.events
            .extend(message.map(|message| Event::warning(reason, message)));
    }
}

/// Adds the images that workloads want on a joining node, and the mark that all are listed.
fn list_first_pulls(
    snapshot: &Snapshot,
    image: &NodeImage,
    node: &Node,
    spec: &mut Map<String, Value>,
    reasons: &mut Vec<String>,
    plan: &mut Plan,
    now: Timestamp,
) {
    let Some(join) = snapshot.join.as_ref().filter(|_| is_joining(Some(image))) else {
        return;
    };
    let listed = join::list(join, node, image, now);
    for job in listed.awaited {
        plan.wait(format!("ImagePullJob {job} has yet to ask this node"));
    }
    if let Some(images) = listed.images {
        reasons.push("the node joins, and workloads want their images there".to_owned());
        spec.insert("images".to_owned(), images);
    }
    if listed.is_all {
        reasons.push("all that a node pulls which joins is listed".to_owned());
        spec.insert("firstPullsListed".to_owned(), json!(true));
    }
}

fn labels(node: &Node) -> BTreeMap<&str, &str> {
    node.metadata
        .labels
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect()
}

/// The merge patch of labels: the NodeImage has exactly its node's labels.
fn relabel(image: &NodeImage, node: &Node) -> Option<Value> {
    let (old, new) = (&image.metadata, &node.metadata);
    let gone = old
        .labels
        .iter()
        .filter(|(key, _)| new.label(key).is_none())
        .map(|(key, _)| (key, Value::Null));
    let set = new
        .labels
        .iter()
        .filter(|(key, value)| old.label(key) != Some(value));
    let set = set.map(|(key, value)| (key, json!(value)));
    let patch: Map<_, _> = gone
        .chain(set)
        .map(|(key, value)| (key.to_string(), value))
        .collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Drops owners that are gone, entries whose owners are all gone, and entries that ended long
/// enough ago. The other entries get the limits of their present owners.
fn entries(
    snapshot: &Snapshot,
    image: &NodeImage,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Value> {
    let of = |owner: &ObjectReference| job_of(snapshot, owner);
    let unreadable = |owner: &ObjectReference| is_unreadable(snapshot, owner);
    let needed = |entry: &ImageTagSpec| {
        let owners = &entry.owner_references;
        owners.iter().filter_map(of).any(still_counts) || owners.iter().any(unreadable)
    };
    let mut soonest: Option<SignedDuration> = None;
    for (name, of) in &image.spec.images {
        let left = of
            .tags
            .iter()
            .filter(|entry| !needed(entry))
            .filter_map(|entry| time_left(snapshot, image, name, entry, now));
        soonest = left
            .filter(SignedDuration::is_positive)
            .chain(soonest)
            .min();
    }
    if let Some(wait) = soonest {
        plan.look_again_after(wait);
    }
    entry::prune(
        image,
        |_, _, owner| !entry::is_job(owner) || of(owner).is_some() || unreadable(owner),
        |name, entry| {
            needed(entry)
                || time_left(snapshot, image, name, entry, now)
                    .is_none_or(|left| left.is_positive())
        },
        |entry| limits(snapshot, entry),
    )
}

/// The most generous limits among the owners for which the pull continues: a job that has ended
/// waits for no pull. `None` leaves the entry's limits as they are, if no job waits or an owner has
/// no limits.
fn limits(snapshot: &Snapshot, entry: &ImageTagSpec) -> Option<ImageTagPullPolicy> {
    let mut widest: Option<ImageTagPullPolicy> = None;
    for owner in &entry.owner_references {
        let limits = match job_of(snapshot, owner) {
            Some(job) if is_running(job) => pull::limits(&job.spec.template, &snapshot.name),
            Some(_) => continue,
            None if prepull::is_owner(owner) => prepull::limits(&snapshot.name),
            None if !entry::is_job(owner) || is_unreadable(snapshot, owner) => return None,
            None => continue,
        };
        widest =
            Some(widest.map_or_else(|| limits.clone(), |widest| entry::widest(&widest, &limits)));
    }
    widest
}

fn job_of<'a>(snapshot: &'a Snapshot, owner: &ObjectReference) -> Option<&'a ImagePullJob> {
    let is = |job: &&Arc<ImagePullJob>| {
        job.metadata
            .uid
            .as_deref()
            .is_some_and(|uid| entry::is(owner, uid))
    };
    snapshot.jobs.iter().find(is).map(|job| &**job)
}

fn is_unreadable(snapshot: &Snapshot, owner: &ObjectReference) -> bool {
    snapshot
        .unreadable_jobs
        .iter()
        .any(|uid| entry::is(owner, uid))
}

/// Whether a change of a job changes the entries that the job owns.
pub fn job_bears_on(old: &ImagePullJob, new: &ImagePullJob) -> bool {
    let limits = |job: &ImagePullJob| {
        let template = &job.spec.template;
        (
            template.pull_policy.clone(),
            template.completion_policy.clone(),
        )
    };
    is_running(old) != is_running(new) || limits(old) != limits(new)
}

/// Whether the job has neither ended nor is being deleted.
fn is_running(job: &ImagePullJob) -> bool {
    let ended = job
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some());
    !ended && job.metadata.deletion_timestamp.is_none()
}

/// Whether the entry of a job that will end stays because the job counts its nodes until its end. A
/// job that never ends pulls again when an entry's time is over.
fn still_counts(job: &ImagePullJob) -> bool {
    job.spec.template.completion_policy.type_ == CompletionPolicyType::Always && is_running(job)
}

/// How long an entry that has ended stays. `None` if it has not ended, or stays for good.
fn time_left(
    snapshot: &Snapshot,
    image: &NodeImage,
    name: &str,
    entry: &ImageTagSpec,
    now: Timestamp,
) -> Option<SignedDuration> {
    let over = entry::status(image, name, entry)?
        .completion_time
        .as_ref()?
        .0;
    let limits = limits(snapshot, entry).or_else(|| entry.pull_policy.clone());
    let ttl = limits?.ttl_seconds_after_finished?;
    Some(SignedDuration::from_secs(i64::from(ttl)) - now.duration_since(over))
}
