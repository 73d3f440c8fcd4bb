//! Has a NodeImage room for one more pull?
//!
//! A node's list is everybody's who may create ImagePullJobs. Of each thing that is limited, a namespace may take more only
//! while it has less of it than is free. So one alone gets half of all, two get a third each, and there is always some left
//! for the next.

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::{ImageTagSpec, MAX_IMAGES, MAX_TAGS, SandboxConfig};
use k8s_openapi::api::core::v1::ObjectReference;

use crate::node::image::NodeImage;

/// Most bytes of a NodeImage's images as JSON: every write of the object, also of its status, is one of all of it.
pub const MAX_IMAGES_BYTES: usize = 192 * 1024;
/// Keys, numbers, times and punctuation of an entry, of an owner and of a secret, as JSON, at most.
const ENTRY_BYTES: usize = 360;
const OWNER_BYTES: usize = 120;
const SECRET_BYTES: usize = 50;

/// One more pull on a node.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    image: &'a str,
    tag: &'a str,
    namespace: &'a str,
    bytes: usize,
}

/// Why a NodeImage takes no further pull of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It names as many images, as many tags of the image, or is as large as may be.
    ForAll,
    /// The namespace has its share of the images, of the image's tags, or of the size.
    ForNamespace(&'static str),
}

impl<'a> Wish<'a> {
    /// What a job wants on each of its nodes; its image is read as name and tag.
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

/// Is there room for one more pull of the namespace?
///
/// # Errors
/// Whose limit is in the way.
pub fn room(node: &NodeImage, wish: &Wish<'_>) -> Result<(), Full> {
    let images = &node.spec.images;
    let image = images.get(wish.image);
    let is_ours = |entry: &&ImageTagSpec| {
        entry
            .namespaces()
            .any(|namespace| namespace == wish.namespace)
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
    if !tags.iter().any(|entry| entry.tag == wish.tag) {
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
            ours += if secret.namespace == wish.namespace {
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
    match MAX_IMAGES_BYTES.checked_sub(all + wish.bytes) {
        None => Err(Full::ForAll),
        Some(free) if ours + wish.bytes > free => Err(Full::ForNamespace("size")),
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

/// Bytes of an entry as JSON, or a few more.
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
mod tests {
    use berth_api::v1beta1::nodeimage::ImageTagPullPolicy;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::node::image::entry::{Ask, ask};
    use json_patch::merge;

    /// A node, and what jobs of namespaces put on it.
    struct Node(NodeImage);

    impl Node {
        /// As many of the images or tags as there is room for, and why there is no more.
        fn fill(
            &mut self,
            namespace: &str,
            spec: &Value,
            pull: impl Fn(usize) -> (String, String),
        ) -> (usize, Full) {
            for n in 0.. {
                let (image, tag) = pull(n);
                let mut job = json!({
                    "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                    "metadata": {"namespace": namespace, "name": format!("job-{n}")}, "spec": {"image": image},
                });
                merge(&mut job["spec"], spec);
                let job: ImagePullJob = serde_json::from_value(job).unwrap();
                if let Err(full) = room(&self.0, &Wish::of(&job, &image, &tag)) {
                    return (n, full);
                }
                self.put(&job, &image, &tag);
            }
            unreachable!("a node is never full")
        }

        fn put(&mut self, job: &ImagePullJob, image: &str, tag: &str) {
            let uid = "01234567-89ab-cdef-0123-456789abcdef";
            let owner = serde_json::from_value(json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                "namespace": job.metadata.namespace, "name": job.metadata.name, "uid": uid,
            }));
            let (owner, limits) = (owner.unwrap(), i32::MAX);
            let limits = ImageTagPullPolicy {
                timeout_seconds: Some(limits),
                backoff_limit: Some(limits),
                ttl_seconds_after_finished: Some(limits),
                active_deadline_seconds: Some(limits.into()),
            };
            let (policy, sandbox) = (
                job.spec.template.image_pull_policy,
                job.spec.template.sandbox_config.as_ref(),
            );
            let wish = Ask {
                image,
                tag,
                owner: &owner,
                limits,
                policy,
                secrets: &[],
                sandbox,
            };
            let mut spec = json!(self.0.spec);
            merge(
                &mut spec,
                &ask(&self.0, &wish, Timestamp::UNIX_EPOCH)["spec"],
            );
            self.0.spec = serde_json::from_value(spec).unwrap();
        }
    }

    fn node() -> Node {
        Node(NodeImage::default())
    }

    #[test]
    fn each_namespace_finds_room_whatever_others_ask_for() {
        let mut node = node();
        let of =
            |namespace: &'static str| move |n: usize| (format!("{namespace}/x{n}"), "1".to_owned());
        let table = [("t1", 128), ("t2", 64), ("t3", 32), ("victim", 16)];
        for (namespace, images) in table {
            let filled = node.fill(namespace, &json!({}), of(namespace));
            assert_eq!(
                filled,
                (images, Full::ForNamespace("images")),
                "{namespace}"
            );
        }
        let known = node.fill("victim", &json!({}), |n| {
            ("t1/x0".to_owned(), format!("v{n}"))
        });
        assert_eq!(
            known,
            (32, Full::ForNamespace("tags of the image")),
            "another tag of an image takes no image"
        );
    }

    #[test]
    fn tags_of_one_image_are_shared() {
        let mut node = node();
        for (namespace, tags) in [("t1", 32), ("t2", 16), ("t3", 8)] {
            let filled = node.fill(namespace, &json!({}), |n| {
                ("app".to_owned(), format!("{namespace}-{n}"))
            });
            assert_eq!(
                filled,
                (tags, Full::ForNamespace("tags of the image")),
                "{namespace}"
            );
        }
    }

    #[test]
    fn a_nodeimage_stays_small_whatever_is_asked_for() {
        let table = [
            ("large", "x".repeat(16_000), 5),
            ("escaped", "\"".repeat(16_000), 1),
            ("control", "\u{1}".repeat(7_000), 2),
        ];
        for (what, text, first) in table {
            let mut node = node();
            for namespace in ["t1", "t2", "t3", "t4"] {
                let spec = json!({"sandboxConfig": {"annotations": {"a": text}}});
                let fat = node.fill(namespace, &spec, |n| {
                    (format!("{namespace}/{what}{n}"), "1".to_owned())
                });
                assert!(
                    namespace != "t1" || fat == (first, Full::ForNamespace("size")),
                    "{what}: {fat:?}"
                );
                let plain = node.fill(namespace, &json!({}), |n| {
                    (format!("{namespace}/p{n}"), "1".to_owned())
                });
                assert!(plain.0 > 0, "{what} {namespace}: {plain:?}");
            }
            let bytes = json!(node.0.spec.images).to_string().len();
            assert!(bytes <= MAX_IMAGES_BYTES, "{what}: {bytes}");
        }
    }

    #[test]
    fn what_is_put_in_by_hand_leaves_no_room_for_anybody() {
        let images = (0..MAX_IMAGES).map(|n| (format!("i{n}"), json!({"tags": [{"tag": "1"}]})));
        let spec =
            serde_json::from_value(json!({"images": Value::Object(images.collect())})).unwrap();
        let mut node = Node(NodeImage {
            spec,
            ..NodeImage::default()
        });
        assert_eq!(
            node.fill("t1", &json!({}), |n| (format!("x{n}"), "1".to_owned())),
            (0, Full::ForAll)
        );
    }
}
