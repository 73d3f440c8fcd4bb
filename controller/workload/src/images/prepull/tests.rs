use serde_json::json;

use super::*;
use crate::feature_gates::Gate;
use crate::objects::node::image::room::Full;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn metadata(value: Option<&str>) -> ObjectMeta {
    let annotations = value.map(|value| [(PREPULL_ON_JOIN.to_owned(), value.to_owned())].into());
    let (namespace, name, uid) = (
        Some("shop".to_owned()),
        Some("web".to_owned()),
        Some("u".to_owned()),
    );
    ObjectMeta {
        namespace,
        name,
        uid,
        annotations,
        ..ObjectMeta::default()
    }
}

#[test]
fn prepull_annotation_must_be_a_boolean() {
    for (value, asks, sound) in [
        (None, false, true),
        (Some("true"), true, true),
        (Some("false"), false, true),
        (Some("yes"), false, false),
        (Some("True"), false, false),
        (Some(""), false, false),
    ] {
        let metadata = metadata(value);
        assert_eq!(is_requested(&metadata), asks, "{value:?}");
        let template = Default::default();
        let workload = crate::update::podset::Workload::plain(CLONE_SETS, &metadata, &template);
        assert_eq!(check(&workload).is_ok(), sound, "{value:?}");
        if let Err(refusal) = check(&workload) {
            let says = format!(
                "CloneSet shop/web: metadata.annotations[{PREPULL_ON_JOIN}]: {:?} is neither",
                value.unwrap()
            );
            assert!(refusal.message.starts_with(&says), "{}", refusal.message);
        }
        let open = Gates::default().with(Gate::ImagePullJob, true);
        assert_eq!(unserved(&workload, open, NOW), None);
        let closed = unserved(&workload, open.with(Gate::ImagePullJob, false), NOW);
        assert_eq!(
            closed.is_some_and(|cause| cause.message.contains("ImagePullJobGate is off")),
            asks,
            "{value:?}"
        );
    }
}

#[test]
fn each_template_image_is_pulled_once_with_secrets() {
    let template = json!({"spec": {
        "initContainers": [{"name": "a", "image": "init:1"}, {"name": "b"}],
        "containers": [{"name": "c", "image": "web:1"}, {"name": "d", "image": "web:1"}, {"name": "e", "image": 7}],
        "imagePullSecrets": [{"name": "s"}, {}],
    }});
    let pulls = pulls(&metadata(None), &template);
    let images: Vec<_> = pulls.iter().map(|job| job.spec.image.as_str()).collect();
    assert_eq!(images, ["init:1", "web:1"]);
    assert!(
        pulls
            .iter()
            .all(|job| job.spec.template.pull_secrets == ["s"])
    );
    for odd in [
        json!(null),
        json!([]),
        json!({"spec": {"containers": "x", "imagePullSecrets": 1}}),
    ] {
        assert!(super::pulls(&metadata(None), &odd).is_empty(), "{odd}");
    }
}

#[test]
fn prepull_adds_each_image_once_within_limits() {
    let mut node: NodeImage =
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {}})).unwrap();
    let ask = |node: &mut NodeImage, image: &str| {
        let template = json!({"spec": {"containers": [{"image": image}], "imagePullSecrets": [{"name": "s"}]}});
        pulls(&metadata(None), &template)
            .iter()
            .for_each(|job| add(node, job, &CLONE_SETS, NOW));
    };
    ask(&mut node, "web:1");
    let first = node.clone();
    ask(&mut node, "web:1");
    ask(&mut node, "no image");
    assert_eq!(node, first);
    let entry = entry::find(&node, "web", "1").unwrap();
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "namespace": "shop", "name": "web", "uid": "u"});
    assert_eq!(json!(entry.owner_references), json!([owner]));
    let limits = entry.pull_policy.as_ref().unwrap();
    assert_eq!(limits.active_deadline_seconds, Some(DEADLINE_SECONDS));
    assert!(
        (300..600).contains(&limits.ttl_seconds_after_finished.unwrap()),
        "{limits:?}"
    );
    let secrets = node.spec.images["web"].secrets_of("1").unwrap();
    assert_eq!(json!(secrets), json!([{"namespace": "shop", "name": "s"}]));
    // A tenant's images leave space for other tenants' images.
    (0..1000).for_each(|n| ask(&mut node, &format!("x{n}:1")));
    assert_eq!(node.spec.images.len(), 128);
    let job = &pulls(
        &metadata(None),
        &json!({"spec": {"containers": [{"image": "more:1"}]}}),
    )[0];
    assert_eq!(
        room(&node, &PullRequest::of(job, "more", "1")),
        Err(Full::ForNamespace("images"))
    );
}
