//! The pulls in a NodeImage's spec: adding one, its progress, and removing it.
//!
//! An entry belongs to all of its owners and is removed with the last of them. Its version counts
//! rounds. A new owner of an image that was pulled before begins another round, and the status of
//! an earlier round says nothing about it.

use std::collections::BTreeSet;

use berth_api::names;
use berth_api::v1beta1::nodeimage::{
    ImagePullPhase, ImagePullPolicy, ImageSpec, ImageTagPullPolicy, ImageTagSpec, ImageTagStatus,
    ReferenceObject, SandboxConfig, backoff_limit, timeout_seconds,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::objects::node::image::NodeImage;
use crate::objects::patch::merge::merge_patch;

/// A pull counts as failed if the node's daemon does not report for this long.
pub const RESPONSE_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// The longest pause that a daemon makes between two tries.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
const SILENT: &str = "the node's daemon has not answered for 10 minutes; is it running there?";
const UNENDING: &str =
    "the node's daemon has neither finished nor given up in time; is it still running there?";

/// A pull to add to a NodeImage.
#[derive(Debug, Clone)]
pub struct EntryRequest<'a> {
    /// The image's name, as NodeImages have it.
    pub image: &'a str,
    /// Its tag or digest.
    pub tag: &'a str,
    /// The object that asks for the pull.
    pub owner: &'a ObjectReference,
    /// Limits of the pull.
    pub limits: ImageTagPullPolicy,
    /// Whether the runtime checks the registry for an image that the node has.
    pub policy: ImagePullPolicy,
    /// Secrets for the registry.
    pub secrets: &'a [ReferenceObject],
    /// The sandbox configuration for the runtime.
    pub sandbox: Option<&'a SandboxConfig>,
}

/// A node's progress with the pull of one owner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Standing<'a> {
    /// The owner has not asked this node.
    NotRequested,
    /// The pull is not done yet.
    Active {
        /// The time from which the pull counts as failed if the daemon does not report.
        silent_from: Option<Timestamp>,
    },
    /// The node has the image.
    Succeeded,
    /// The daemon gave up or does not report; with the reason.
    Failed(&'a str),
}

/// The node's progress with the pull, if the owner with this uid has asked for it.
pub fn standing<'a>(
    node: &'a NodeImage,
    image: &str,
    tag: &str,
    uid: &str,
    now: Timestamp,
) -> Standing<'a> {
    let Some(entry) =
        find(node, image, tag).filter(|entry| entry.owner_references.iter().any(|o| is(o, uid)))
    else {
        return Standing::NotRequested;
    };
    let (since, wait, why) = match status(node, image, entry) {
        Some(status) if status.phase == ImagePullPhase::Succeeded => return Standing::Succeeded,
        Some(status) if status.phase == ImagePullPhase::Failed => {
            return Standing::Failed(&status.message);
        }
        // A pull that has not begun may wait for other pulls of its node for any time.
        Some(status) => (status.start_time.as_ref(), longest(entry), UNENDING),
        None => (entry.created_at.as_ref(), RESPONSE_TIMEOUT, SILENT),
    };
    let silent_from = since.and_then(|since| since.0.checked_add(wait).ok());
    if silent_from.is_some_and(|at| at <= now) {
        Standing::Failed(why)
    } else {
        Standing::Active { silent_from }
    }
}

/// The longest time that a daemon takes for a pull, plus a margin.
fn longest(entry: &ImageTagSpec) -> SignedDuration {
    let limits = entry.pull_policy.clone().unwrap_or_default();
    let tries = backoff_limit(limits.backoff_limit).saturating_add(1);
    let one =
        SignedDuration::from_secs(timeout_seconds(limits.timeout_seconds).into()) + LONGEST_PAUSE;
    let all = one.checked_mul(tries).unwrap_or(SignedDuration::MAX);
    let deadline = limits
        .active_deadline_seconds
        .map_or(SignedDuration::MAX, SignedDuration::from_secs);
    all.min(deadline).saturating_add(RESPONSE_TIMEOUT)
}

/// The entry for the pull.
pub fn find<'a>(node: &'a NodeImage, image: &str, tag: &str) -> Option<&'a ImageTagSpec> {
    node.spec
        .images
        .get(image)?
        .tags
        .iter()
        .find(|entry| entry.tag == tag)
}

/// The daemon's status of the current round of the entry.
pub fn status<'a>(
    node: &'a NodeImage,
    image: &str,
    entry: &ImageTagSpec,
) -> Option<&'a ImageTagStatus> {
    any_round(node, image, &entry.tag).filter(|status| status.version == entry.version)
}

/// Whether the daemon says that the pull succeeded or failed.
pub fn is_over(node: &NodeImage, image: &str, entry: &ImageTagSpec) -> bool {
    let phase = status(node, image, entry).map(|status| status.phase);
    matches!(
        phase,
        Some(ImagePullPhase::Succeeded | ImagePullPhase::Failed)
    )
}

fn any_round<'a>(node: &'a NodeImage, image: &str, tag: &str) -> Option<&'a ImageTagStatus> {
    node.status
        .as_ref()?
        .image_statuses
        .get(image)?
        .tags
        .iter()
        .find(|status| status.tag == tag)
}

/// Every owner of every entry.
pub fn all_owners(node: &NodeImage) -> impl Iterator<Item = &ObjectReference> {
    node.spec
        .images
        .values()
        .flat_map(|image| &image.tags)
        .flat_map(|entry| &entry.owner_references)
}

/// Whether the owner is the object with this uid.
pub fn is(owner: &ObjectReference, uid: &str) -> bool {
    owner.uid.as_deref() == Some(uid)
}

/// Whether the owner is an ImagePullJob.
pub fn is_job(owner: &ObjectReference) -> bool {
    let group = owner
        .api_version
        .as_deref()
        .and_then(|version| version.split_once('/'))
        .map(|(group, _)| group);
    owner.kind.as_deref() == Some("ImagePullJob") && group == Some(names::GROUP)
}

/// The merge patch that adds a pull to the node.
pub fn ask(node: &NodeImage, request: &EntryRequest<'_>, now: Timestamp) -> Value {
    let old = node.spec.images.get(request.image);
    json!({"spec": {"images": {request.image: change(old, Some(&with_pull(node, request, now)))}}})
}

/// Namespaces and names of the ImagePullJobs that asked for the NodeImage's pulls.
pub fn owners(image: &NodeImage) -> BTreeSet<(&str, &str)> {
    let jobs = all_owners(image).filter(|owner| is_job(owner));
    jobs.map(|job| {
        (
            job.namespace.as_deref().unwrap_or_default(),
            job.name.as_deref().unwrap_or_default(),
        )
    })
    .collect()
}

/// Whether the owner with this uid has a pull in the NodeImage.
pub fn is_requested_by(image: &NodeImage, uid: &str) -> bool {
    all_owners(image).any(|owner| is(owner, uid))
}

/// The image in the NodeImage after a pull is added.
pub fn with_pull(node: &NodeImage, request: &EntryRequest<'_>, now: Timestamp) -> ImageSpec {
    let mut new = node
        .spec
        .images
        .get(request.image)
        .cloned()
        .unwrap_or_default();
    match new.tags.iter_mut().find(|entry| entry.tag == request.tag) {
        Some(entry) => join(node, entry, request, now),
        None => new.tags.push(ImageTagSpec {
            tag: request.tag.to_owned(),
            created_at: Some(Time(now)),
            pull_policy: Some(request.limits.clone()),
            owner_references: vec![request.owner.clone()],
            // A daemon that has not seen the deletion of an earlier entry must not answer for the
            // new one with the old result.
            version: any_round(node, request.image, request.tag)
                .map_or(0, |status| status.version.saturating_add(1)),
            image_pull_policy: Some(request.policy),
            sandbox_config: request.sandbox.cloned(),
        }),
    }
    for secret in request.secrets {
        if !new
            .pull_secrets
            .iter()
            .any(|s| s.namespace == secret.namespace && s.name == secret.name)
        {
            new.pull_secrets.push(secret.clone());
        }
    }
    new
}

/// The merge patch from the node's `spec.images` to the ones of `new`, which contain all of the
/// node's. `None` if they are the same.
pub fn added(node: &NodeImage, new: &NodeImage) -> Option<Value> {
    let old = |name: &String| node.spec.images.get(name);
    let changed = new
        .spec
        .images
        .iter()
        .filter(|(name, image)| old(name) != Some(image));
    let images: Map<_, _> = changed
        .map(|(name, image)| (name.clone(), change(old(name), Some(image))))
        .collect();
    (!images.is_empty()).then_some(Value::Object(images))
}

/// Adds an owner to a pull. A pull that is under way serves the new owner, too, unless its policy
/// is `Always`; otherwise another round begins.
fn join(node: &NodeImage, entry: &mut ImageTagSpec, request: &EntryRequest<'_>, now: Timestamp) {
    let begins_anew = is_over(node, request.image, entry);
    if begins_anew {
        // A pull that is under way keeps its sandbox configuration, even if it has none.
        entry.sandbox_config = request.sandbox.cloned();
    }
    if begins_anew || request.policy == ImagePullPolicy::Always {
        let answered =
            any_round(node, request.image, request.tag).map_or(0, |status| status.version);
        entry.version = entry.version.max(answered).saturating_add(1);
        entry.image_pull_policy = Some(request.policy);
    }
    if entry.owner_references.is_empty() {
        // A user added the entry by hand. It must stay when the new owner leaves, so that it gets a
        // permanent owner.
        entry.owner_references.push(ObjectReference {
            api_version: Some(format!("{}/{}", names::GROUP, names::V1BETA1)),
            kind: Some("NodeImage".to_owned()),
            name: Some(node.metadata.name.to_string()),
            uid: Some(node.metadata.uid.to_string()),
            ..ObjectReference::default()
        });
    }
    entry.owner_references.push(request.owner.clone());
    entry.created_at = Some(Time(now));
    entry.pull_policy = Some(widest(
        &entry.pull_policy.take().unwrap_or_default(),
        &request.limits,
    ));
}

/// The larger of two owners' limits.
pub fn widest(a: &ImageTagPullPolicy, b: &ImageTagPullPolicy) -> ImageTagPullPolicy {
    ImageTagPullPolicy {
        timeout_seconds: Some(
            timeout_seconds(a.timeout_seconds).max(timeout_seconds(b.timeout_seconds)),
        ),
        backoff_limit: Some(backoff_limit(a.backoff_limit).max(backoff_limit(b.backoff_limit))),
        ttl_seconds_after_finished: a
            .ttl_seconds_after_finished
            .zip(b.ttl_seconds_after_finished)
            .map(|(a, b)| a.max(b)),
        active_deadline_seconds: a
            .active_deadline_seconds
            .zip(b.active_deadline_seconds)
            .map(|(a, b)| a.max(b)),
    }
}

/// The merge patch of `spec.images` that drops owners and entries, and sets the limits from
/// `limits` on the others. An entry is removed with its last owner; `keep_entry` decides on entries
/// that never had one. `None` if nothing changes.
pub fn prune(
    node: &NodeImage,
    keep_owner: impl Fn(&str, &ImageTagSpec, &ObjectReference) -> bool,
    keep_entry: impl Fn(&str, &ImageTagSpec) -> bool,
    limits: impl Fn(&ImageTagSpec) -> Option<ImageTagPullPolicy>,
) -> Option<Value> {
    let mut images = Map::new();
    for (name, image) in &node.spec.images {
        let stays = |entry: &ImageTagSpec| {
            keep_entry(name, entry)
                && entry
                    .owner_references
                    .iter()
                    .all(|owner| keep_owner(name, entry, owner))
                && limits(entry).is_none_or(|limits| entry.pull_policy.as_ref() == Some(&limits))
        };
        if !image.tags.is_empty() && image.tags.iter().all(stays) {
            continue;
        }
        let mut tags = Vec::with_capacity(image.tags.len());
        for entry in image.tags.iter().filter(|entry| keep_entry(name, entry)) {
            let owners: Vec<_> = entry
                .owner_references
                .iter()
                .filter(|o| keep_owner(name, entry, o))
                .cloned()
                .collect();
            if !owners.is_empty() || entry.owner_references.is_empty() {
                let pull_policy = limits(entry).or_else(|| entry.pull_policy.clone());
                tags.push(ImageTagSpec {
                    owner_references: owners,
                    pull_policy,
                    ..entry.clone()
                });
            }
        }
        let pull_secrets = still_needed(image, &tags);
        let new = ImageSpec {
            tags,
            pull_secrets,
            sandbox_config: image.sandbox_config.clone(),
        };
        images.insert(
            name.clone(),
            change(Some(image), (!new.tags.is_empty()).then_some(&new)),
        );
    }
    (!images.is_empty()).then_some(Value::Object(images))
}

/// The secrets that the remaining entries need. A namespace's secrets are removed with the last
/// entry of that namespace, because a node may use only secrets that its pulls need.
fn still_needed(old: &ImageSpec, tags: &[ImageTagSpec]) -> Vec<ReferenceObject> {
    let of = |tags: &[ImageTagSpec]| -> BTreeSet<String> {
        tags.iter()
            .flat_map(ImageTagSpec::namespaces)
            .map(str::to_owned)
            .collect()
    };
    let gone = &of(&old.tags) - &of(tags);
    old.pull_secrets
        .iter()
        .filter(|secret| !gone.contains(&secret.namespace))
        .cloned()
        .collect()
}

/// The merge patch from one state of an image's spec to another. It is sorted, so that equal pulls
/// make equal specs.
fn change(old: Option<&ImageSpec>, new: Option<&ImageSpec>) -> Value {
    let Some(new) = new else { return Value::Null };
    let mut new = new.clone();
    new.tags.sort_by(|a, b| a.tag.cmp(&b.tag));
    // Plain data with string keys always serialises.
    let value = |image: &ImageSpec| serde_json::to_value(image).unwrap_or_default();
    let old = old.map(value).unwrap_or_else(|| json!({}));
    merge_patch(&old, &value(&new)).unwrap_or_else(|| json!({}))
}
