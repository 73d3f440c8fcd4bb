use berth_api::v1beta1::nodeimage::ImageTagPullPolicy;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::objects::node::image::entry::{EntryRequest, ask};
use json_patch::merge;

/// A node, and what jobs of namespaces put on it.
struct Node(NodeImage);

impl Node {
    /// Adds as many images or tags as fit, and returns why no more fit.
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
            if let Err(full) = room(&self.0, &PullRequest::of(&job, &image, &tag)) {
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
        let request = EntryRequest {
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
            &ask(&self.0, &request, Timestamp::UNIX_EPOCH)["spec"],
        );
        self.0.spec = serde_json::from_value(spec).unwrap();
    }
}

fn node() -> Node {
    Node(NodeImage::default())
}

#[test]
fn full_namespaces_leave_space_for_others() {
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
fn nodeimage_spec_stays_below_its_size_limit() {
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
fn manual_entries_can_fill_a_nodeimage() {
    let images = (0..MAX_IMAGES).map(|n| (format!("i{n}"), json!({"tags": [{"tag": "1"}]})));
    let spec = serde_json::from_value(json!({"images": Value::Object(images.collect())})).unwrap();
    let mut node = Node(NodeImage {
        spec,
        ..NodeImage::default()
    });
    assert_eq!(
        node.fill("t1", &json!({}), |n| (format!("x{n}"), "1".to_owned())),
        (0, Full::ForAll)
    );
}
