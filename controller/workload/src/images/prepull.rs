//! Images that nodes pull when they join, for workloads whose annotation asks for it.

use std::collections::BTreeSet;

use berth_api::fields::inplace::prepull_on_join;
use berth_api::names::annotation::PREPULL_ON_JOIN;
use berth_api::v1beta1::imagepulljob::{
    CompletionPolicy, ImagePullJob, ImagePullJobSpec, ImagePullJobTemplate,
};
use berth_api::v1beta1::nodeimage::ImageTagPullPolicy;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::blocked::{Cause, Grade};
use crate::feature_gates::Gates;
use crate::images::pull;
use crate::objects::node::image::NodeImage;
use crate::objects::node::image::entry::{self, EntryRequest};
use crate::objects::node::image::room::{PullRequest, room};
use crate::objects::resource::{CLONE_SETS, DAEMON_SETS, Resource};
use crate::plan::Refusal;
use crate::update::podset::Workload;

/// Seconds after which a node gives up, for all tries together, as for jobs that never end.
const DEADLINE_SECONDS: i64 = 1800;

/// Whether joining nodes pull the images of the object with this metadata.
pub fn is_requested(metadata: &ObjectMeta) -> bool {
    annotation(metadata).is_some_and(|text| prepull_on_join(text) == Ok(true))
}

/// Checks the annotation.
///
/// # Errors
/// The refusal names the object, the annotation, its value and the remedy.
pub fn check(workload: &Workload<'_>) -> Result<(), Refusal> {
    let Some(text) = annotation(workload.metadata) else {
        return Ok(());
    };
    prepull_on_join(text).map(drop).map_err(|problem| Refusal {
        reason: "InvalidSpec",
        message: format!("{workload}: metadata.annotations[{PREPULL_ON_JOIN}]: {text:?} {problem}"),
    })
}

/// Why a workload's images are not pulled although its annotation asks for it; `None` if they are,
/// or the annotation does not.
pub fn unserved(workload: &Workload<'_>, gates: Gates, now: Timestamp) -> Option<Cause> {
    let why = pull::closed(gates).filter(|_| is_requested(workload.metadata))?;
    let message =
        format!("{workload}: metadata.annotations[{PREPULL_ON_JOIN}] has no effect, for {why}");
    Some(Cause::new(Grade::Hazard, "NotPrepulled", message, now))
}

/// The images of a pod template and its init containers, each once, as the jobs that would pull
/// them.
pub fn pulls(metadata: &ObjectMeta, template: &Value) -> Vec<ImagePullJob> {
    let of = |field: &str| template["spec"][field].as_array().into_iter().flatten();
    let images: BTreeSet<&str> = of("initContainers")
        .chain(of("containers"))
        .filter_map(|container| container["image"].as_str())
        .collect();
    let secrets =
        of("imagePullSecrets").filter_map(|secret| secret["name"].as_str().map(str::to_owned));
    let template = self::template(secrets.collect());
    let spec = |image: &str| ImagePullJobSpec {
        image: image.to_owned(),
        template: template.clone(),
    };
    let ObjectMeta {
        namespace,
        name,
        uid,
        ..
    } = metadata.clone();
    let metadata = ObjectMeta {
        namespace,
        name,
        uid,
        ..ObjectMeta::default()
    };
    let job = |image: &str| ImagePullJob {
        metadata: metadata.clone(),
        ..ImagePullJob::new("", spec(image))
    };
    images.into_iter().map(job).collect()
}

/// Whether this owner of an entry is a workload whose images joining nodes pull.
pub fn is_owner(owner: &ObjectReference) -> bool {
    let is_of = |resource: &Resource| {
        owner.kind.as_deref() == Some(resource.kind)
            && owner.api_version.as_deref() == Some(&*resource.api_version())
    };
    [CLONE_SETS, DAEMON_SETS].iter().any(is_of)
}

/// Limits of a workload's pulls on one node.
pub fn limits(node: &str) -> ImageTagPullPolicy {
    pull::limits(&template(Vec::new()), node)
}

fn template(pull_secrets: Vec<String>) -> ImagePullJobTemplate {
    let completion_policy = CompletionPolicy {
        active_deadline_seconds: Some(DEADLINE_SECONDS),
        // The entry's result needs no longer time to live, because nothing counts the pulls.
        ttl_seconds_after_finished: Some(0),
        ..CompletionPolicy::default()
    };
    ImagePullJobTemplate {
        pull_secrets,
        completion_policy,
        ..ImagePullJobTemplate::default()
    }
}

/// Adds a pull of a workload to a NodeImage, if it is missing and there is space. An invalid image
/// is left out, because the kubelet reports it in the pods.
pub fn add(node: &mut NodeImage, job: &ImagePullJob, of: &Resource, now: Timestamp) {
    let Ok(settings) = pull::settings(job) else {
        return;
    };
    let (image, tag) = (&settings.image, &settings.tag);
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let is_requested = entry::find(node, image, tag)
        .is_some_and(|e| e.owner_references.iter().any(|o| entry::is(o, uid)));
    if is_requested || room(node, &PullRequest::of(job, image, tag)).is_err() {
        return;
    }
    let owner = ObjectReference {
        api_version: Some(of.api_version()),
        kind: Some(of.kind.to_owned()),
        ..settings.owner.clone()
    };
    let name = node.metadata.name.clone();
    let (limits, secrets, policy) = (limits(&name), &settings.secrets, settings.policy);
    let requested = entry::with_pull(
        node,
        &EntryRequest {
            image,
            tag,
            owner: &owner,
            limits,
            policy,
            secrets,
            sandbox: None,
        },
        now,
    );
    node.spec.images.insert(image.clone(), requested);
}

fn annotation(metadata: &ObjectMeta) -> Option<&str> {
    metadata
        .annotations
        .as_ref()?
        .get(PREPULL_ON_JOIN)
        .map(String::as_str)
}

#[cfg(test)]
mod tests;
