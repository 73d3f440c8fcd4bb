//! The annotation that makes in-place updates wait for their images.

use berth_api::fields::inplace::wait_for_image;
use berth_api::names::annotation;
use berth_api::v1beta1::nodeimage::{ImagePullPhase, ImageTagStatus};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::objects::node::image::NodeImage;
use crate::plan::Refusal;
use crate::update::podset::Workload;

/// The longest wait of an in-place update for its image, from the owner's metadata; `None` if it
/// does not wait.
pub fn patience(metadata: &ObjectMeta) -> Option<SignedDuration> {
    wait_for_image(annotation(metadata)?).ok()
}

/// The message about an update that waits for an image for at most this long.
pub fn waits_for(image: &str, node: &str, left: SignedDuration) -> String {
    format!(
        "waits for image {image} on node {node}, at most {} s more ({})",
        left.as_secs().saturating_add(1),
        annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE
    )
}

fn annotation(metadata: &ObjectMeta) -> Option<&str> {
    metadata
        .annotations
        .as_ref()?
        .get(annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE)
        .map(String::as_str)
}

/// Checks the annotation.
///
/// # Errors
/// The refusal names the object, the annotation, its value and the remedy.
pub fn check(workload: &Workload<'_>) -> Result<(), Refusal> {
    let Some(text) = annotation(workload.metadata) else {
        return Ok(());
    };
    wait_for_image(text).map(drop).map_err(|problem| Refusal {
        reason: "InvalidSpec",
        message: format!(
            "{workload}: metadata.annotations[{}]: {text:?} {problem}",
            annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE
        ),
    })
}

/// Whether a change of a NodeImage has added an image that updates may wait for.
pub fn brings_images(old: Option<&NodeImage>, new: &NodeImage) -> bool {
    let images = new.status.iter().flat_map(|status| &status.image_statuses);
    let mut here = images
        .flat_map(|(name, image)| image.tags.iter().map(move |tag| (name, tag)))
        .filter(|(_, tag)| tag.phase == ImagePullPhase::Succeeded);
    let before = |name: &String, tag: &ImageTagStatus| {
        let status = old.and_then(|old| old.status.as_ref());
        let mut tags = status
            .and_then(|status| status.image_statuses.get(name))
            .into_iter()
            .flat_map(|image| &image.tags);
        tags.any(|old| old.tag == tag.tag && old.version == tag.version && old.phase == tag.phase)
    };
    here.any(|(name, tag)| !before(name, tag))
}

/// Whether updates of the workload with this metadata wait for images.
pub fn waits_for_images(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| {
        annotations.contains_key(annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE)
    })
}
