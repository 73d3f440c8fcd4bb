//! Whether a NodeImage has space for one more pull.
//!
//! All users who may create ImagePullJobs share a node's list. Of each limited resource, a
//! namespace may take more only while it has less than what is free. So one namespace alone gets
//! half of all, two get a third each, and some is always left for the next one.

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::{ImageTagSpec, MAX_IMAGES, MAX_TAGS, SandboxConfig};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::objects::node::image::NodeImage;

/// Most bytes of a NodeImage's images as JSON, because every write of the object, also of its
/// status, writes all of it.
pub const MAX_IMAGES_BYTES: usize = 192 * 1024;
/// Most bytes of JSON for keys, numbers, times and punctuation of an entry, of an owner and of a
/// secret.
const ENTRY_BYTES: usize = 360;
const OWNER_BYTES: usize = 120;
const SECRET_BYTES: usize = 50;

/// One more pull on a node.
#[derive(Debug, Clone, Copy)]
pub struct PullRequest<'a> {
    image: &'a str,
    tag: &'a str,
    namespace: &'a str,
    bytes: usize,
}

/// Why a NodeImage takes no further pull of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The NodeImage has the most images, tags of the image, or bytes.
    ForAll,
    /// The namespace has its share of the images, of the image's tags, or of the bytes.
    ForNamespace(&'static str),
}

impl<'a> PullRequest<'a> {
    /// The pull of a job on each of its nodes; its image is given as name and tag.
    pub fn of(job: &'a ImagePullJob, image: &'a str, tag: &'a str) -> Self {
        let (metadata, template) = (&job.metadata, &job.spec.template);
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let owner = OWNER_BYTES + namespace.len() + metadata.name.as_deref().map_or(0, str::len);
        let secrets = template
            .pull_secrets
            .iter()
            .map(|name| SECRET_BYTES + namespace.len() + text(name));
        let sandbox = template.sandbox_config.as_ref().map_or(0, sandbox);
        let bytes =
            image.len() + tag.len() + ENTRY_BYTES + owner + secrets.sum::<usize>() + sandbox;
        Self {
            image,
            tag,
            namespace,
            bytes,
        }
    }
}

/// Whether the NodeImage has space for one more pull of the namespace.
///
/// # Errors
/// The limit that is reached.
pub fn room(node: &NodeImage, request: &PullRequest<'_>) -> Result<(), Full> {
    let images = &node.spec.images;
    let image = images.get(request.image);
    let is_ours = |entry: &&ImageTagSpec| {
        entry
            .namespaces()
            .any(|namespace| namespace == request.namespace)
    };
    if image.is_none() {
        let ours = || {
            images
                .values()
                .filter(|image| image.tags.iter().any(|entry| is_ours(&entry)))
                .count()
        };
        one_more("images", ours, MAX_IMAGES.saturating_sub(images.len()))?;
    }
    let tags = image.map_or(&[][..], |image| &image.tags);
    if !tags.iter().any(|entry| entry.tag == request.tag) {
        one_more(
            "tags of the image",
            || tags.iter().filter(is_ours).count(),
            MAX_TAGS.saturating_sub(tags.len()),
        )?;
    }
    let (mut all, mut ours) = (0, 0);
    for (name, image) in images {
        all += text(name) + SECRET_BYTES;
        for secret in &image.pull_secrets {
            let bytes =
                SECRET_BYTES + text(&secret.namespace) + text(&secret.name) + secret.mode.len();
            all += bytes;
            ours += if secret.namespace == request.namespace {
                bytes
            } else {
                0
            };
        }
        all += image.sandbox_config.as_ref().map_or(0, sandbox);
        for tag in &image.tags {
            let bytes = entry(tag);
            all += bytes;
            ours += if is_ours(&tag) { bytes } else { 0 };
        }
    }
    match MAX_IMAGES_BYTES.checked_sub(all + request.bytes) {
        None => Err(Full::ForAll),
        Some(free) if ours + request.bytes > free => Err(Full::ForNamespace("size")),
        Some(_) => Ok(()),
    }
}

fn one_more(what: &'static str, ours: impl Fn() -> usize, free: usize) -> Result<(), Full> {
    match free {
        0 => Err(Full::ForAll),
        free if ours() >= free => Err(Full::ForNamespace(what)),
        _ => Ok(()),
    }
}

/// Upper bound of the bytes of an entry as JSON.
fn entry(entry: &ImageTagSpec) -> usize {
    let owners: usize = entry.owner_references.iter().map(owner).sum();
    ENTRY_BYTES + text(&entry.tag) + owners + entry.sandbox_config.as_ref().map_or(0, sandbox)
}

fn owner(owner: &ObjectReference) -> usize {
    let fields = [
        &owner.namespace,
        &owner.name,
        &owner.uid,
        &owner.kind,
        &owner.api_version,
        &owner.field_path,
    ];
    OWNER_BYTES
        + fields
            .into_iter()
            .flatten()
            .map(|field| text(field))
            .sum::<usize>()
}

fn sandbox(sandbox: &SandboxConfig) -> usize {
    let pairs = sandbox.labels.iter().chain(&sandbox.annotations).flatten();
    SECRET_BYTES
        + pairs
            .map(|(key, value)| text(key) + text(value) + 6)
            .sum::<usize>()
}

/// Bytes of a string as JSON, without its quotes.
fn text(text: &str) -> usize {
    let escaped = text
        .bytes()
        .filter(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\'))
        .count();
    text.len() + 5 * escaped
}

#[cfg(test)]
mod tests;
