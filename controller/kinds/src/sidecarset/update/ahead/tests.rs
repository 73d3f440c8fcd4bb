use berth_api::IntOrString;
use berth_api::names::annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE;
use berth_workload::feature_gates::Gates;
use serde_json::Value;

use super::*;
use crate::sidecarset::annotations_to_read;
use crate::sidecarset::tests::{NOW, pod, snapshot};

/// Four pods of two namespaces that must get `agent:2`, by a SidecarSet with this annotation, if
/// any.
fn outdated(waits: Option<&str>) -> Snapshot {
    let pods = ["a", "b", "c", "d"].map(|name| {
        let mut pod = pod(name, "h1", true);
        pod["metadata"]["namespace"] = json!(if name == "a" { "one" } else { "two" });
        pod["spec"]["nodeName"] = json!(format!("node-{name}"));
        pod
    });
    let mut snapshot = snapshot(&json!({}), &pods);
    snapshot.gates = Gates::default().with(Gate::PreDownloadImageForInPlaceUpdate, true);
    snapshot.jobs = Some(Vec::new());
    if let Some(time) = waits {
        let set = Arc::make_mut(&mut snapshot.set);
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(INPLACE_UPDATE_WAIT_FOR_IMAGE.to_owned(), time.to_owned());
        for name in ["a", "b", "c", "d"] {
            let node = json!({"metadata": {"name": format!("node-{name}")}, "spec": {}});
            let node = Arc::new(serde_json::from_value(node).unwrap());
            snapshot
                .node_images
                .insert(format!("node-{name}").into(), node);
        }
    }
    snapshot
}

fn created(plan: &Plan) -> Vec<Value> {
    let bodies = plan.actions().filter_map(|action| match action {
        Action::Create { body, .. } => Some(body.clone()),
        _ => None,
    });
    bodies.collect()
}

fn labels(plan: &Plan) -> Vec<Value> {
    let patches = plan.actions().filter_map(|action| match action {
        Action::PatchRevision { patch, .. } => Some(patch["metadata"]["labels"].clone()),
        _ => None,
    });
    patches.collect()
}

fn updated(plan: &Plan) -> usize {
    plan.actions()
        .filter(|action| matches!(action, Action::PatchPod { .. }))
        .count()
}

#[test]
fn new_images_get_a_pull_job_in_each_namespace() {
    let plan = crate::sidecarset::decide(&outdated(None), NOW);
    let jobs = created(&plan);
    let of = |field: &str| {
        jobs.iter()
            .map(|job| job.pointer(field).cloned().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("/metadata/namespace"), ["one", "two"]);
    assert_eq!(of("/metadata/name"), ["log-1-agent", "log-1-agent"]);
    assert_eq!(of("/spec/image"), ["agent:2", "agent:2"]);
    assert_eq!(
        of("/spec/podSelector")[0],
        json!({"matchLabels": {"app": "web"}})
    );
    assert_eq!(of("/metadata/ownerReferences")[0][0]["kind"], "SidecarSet");
    assert_eq!(
        labels(&plan),
        [json!({label::IMAGE_PREDOWNLOAD_CREATED: "true"})]
    );
    assert_eq!(updated(&plan), 1, "nothing waits for it");
}

#[test]
fn existing_pull_job_is_not_created_again() {
    let mut snapshot = outdated(None);
    let mut all = created(&crate::sidecarset::decide(&snapshot, NOW));
    let last = all.split_off(1);
    snapshot.jobs = Some(
        all.into_iter()
            .map(|job| Arc::new(serde_json::from_value(job).unwrap()))
            .collect(),
    );
    let plan = crate::sidecarset::decide(&snapshot, NOW);
    assert_eq!((created(&plan), labels(&plan).len()), (last, 1));
}

#[test]
fn no_pull_job_without_gate_or_for_small_updates() {
    let mut off = outdated(None);
    off.gates = Gates::default();
    let mut few = outdated(None);
    few.pods.truncate(3);
    let mut at_once = outdated(None);
    let strategy = &mut Arc::make_mut(&mut at_once.set).spec.update_strategy;
    strategy.max_unavailable = Some(IntOrString::String("100%".to_owned()));
    let mut told = outdated(None);
    let mut revision = (*told.revisions[0]).clone();
    revision.metadata.labels = [(label::IMAGE_PREDOWNLOAD_CREATED.into(), "true".into())].into();
    told.revisions = vec![Arc::new(revision)];
    let ignored = vec![json!({label::IMAGE_PREDOWNLOAD_IGNORED: "true"})];
    for (what, snapshot, expected) in [
        ("no gate", off, vec![]),
        ("few", few, ignored.clone()),
        ("at once", at_once, ignored),
        ("told", told, vec![]),
    ] {
        let plan = crate::sidecarset::decide(&snapshot, NOW);
        assert_eq!(
            (created(&plan), labels(&plan)),
            (vec![], expected),
            "{what}"
        );
    }
}

#[test]
fn updates_wait_for_their_image_until_the_timeout() {
    let mut snapshot = outdated(Some("90s"));
    let plan = crate::sidecarset::decide(&snapshot, NOW);
    assert_eq!(
        (updated(&plan), created(&plan).len()),
        (0, 2),
        "the jobs are made first"
    );
    assert!(plan.waiting.iter().any(|it| {
        it.reason
            .contains("waits for image agent:2 on node node-a, at most 9")
    }));
    let mut revision = (*snapshot.revisions[0]).clone();
    revision.metadata.labels = [(label::IMAGE_PREDOWNLOAD_CREATED.into(), "true".into())].into();
    snapshot.revisions = vec![Arc::new(revision)];
    let jobs = created(&plan).into_iter().map(|mut body| {
        body["metadata"]["creationTimestamp"] = json!(NOW.to_string());
        Arc::new(serde_json::from_value(body).unwrap())
    });
    snapshot.jobs = Some(jobs.collect());
    assert_eq!(
        updated(&crate::sidecarset::decide(
            &snapshot,
            NOW + SignedDuration::from_secs(89)
        )),
        0
    );
    assert_eq!(
        updated(&crate::sidecarset::decide(
            &snapshot,
            NOW + SignedDuration::from_secs(90)
        )),
        1
    );
    let facts = json!({"metadata": {"name": "node-c"}, "spec": {}, "status": {
        "desired": 0, "succeeded": 0, "failed": 0, "pulling": 0,
        "imageFacts": [{"image": "agent:2", "imageIDs": ["sha256:a"]}],
    }});
    snapshot.node_images.insert(
        "node-c".into(),
        Arc::new(serde_json::from_value(facts).unwrap()),
    );
    let plan = crate::sidecarset::decide(&snapshot, NOW);
    let Some(Action::PatchPod { target, .. }) = plan.actions().next() else {
        panic!("{plan:#?}")
    };
    assert_eq!(target.name, "c", "the pod whose node has it");
}

#[test]
fn annotations_are_read_only_of_pods_updated_now() {
    let facts = json!({"metadata": {"name": "node-c"}, "spec": {}, "status": {
        "desired": 0, "succeeded": 0, "failed": 0, "pulling": 0,
        "imageFacts": [{"image": "agent:2", "imageIDs": ["sha256:a"]}],
    }});
    for (what, waits, has_it, expected) in [
        ("the pod whose node has it", Some("90s"), true, &["c"][..]),
        ("no node has it", Some("90s"), false, &[]),
        ("none waits", None, false, &["a"]),
    ] {
        let mut snapshot = outdated(waits);
        let patches = json!([{"annotations": {"example.org/a": "b"}, "patchPolicy": "Retain"}]);
        Arc::make_mut(&mut snapshot.set).spec.patch_pod_metadata =
            serde_json::from_value(patches).unwrap();
        snapshot.allowed = ["example.org/a".to_owned()].into();
        if has_it {
            let node = Arc::new(serde_json::from_value(facts.clone()).unwrap());
            snapshot.node_images.insert("node-c".into(), node);
        }
        let read = annotations_to_read(&snapshot, NOW);
        let names: Vec<_> = read.iter().map(|pod| &*pod.metadata.name).collect();
        assert_eq!(names, expected, "{what}");
        snapshot.annotations = read
            .iter()
            .map(|pod| (pod.metadata.uid.clone(), BTreeMap::new()))
            .collect();
        assert_eq!(
            updated(&crate::sidecarset::decide(&snapshot, NOW)),
            expected.len(),
            "{what}"
        );
    }
}

#[test]
fn unneeded_pull_job_is_deleted() {
    let mut snapshot = outdated(None);
    let plan = crate::sidecarset::decide(&snapshot, NOW);
    let job = |body: &Value, hash: &str| {
        let mut body = body.clone();
        body["metadata"]["labels"][HASH_LABEL] = json!(hash);
        body["metadata"]["uid"] = json!(hash);
        Arc::new(serde_json::from_value::<ImagePullJob>(body).unwrap())
    };
    let body = &created(&plan)[0];
    let deleted = |snapshot: &Snapshot| -> Vec<String> {
        let plan = crate::sidecarset::decide(snapshot, NOW);
        let uids = plan.actions().filter_map(|action| match action {
            Action::Delete { target, .. } => Some(target.uid.clone()),
            _ => None,
        });
        uids.collect()
    };
    snapshot.jobs = Some(vec![job(body, "1"), job(body, "0")]);
    assert_eq!(deleted(&snapshot), ["0"]);
    snapshot.pods = ["a", "b"]
        .map(|name| Arc::new(serde_json::from_value(pod(name, "h2", true)).unwrap()))
        .into();
    assert_eq!(deleted(&snapshot), ["1", "0"]);
}
