//! CloneSets that OpenKruise ran until now. Their objects have the observed form in which
//! OpenKruise 1.9 leaves them.

use std::sync::Arc;

use berth_api::names::annotation::CHANGE_CAUSE;
use berth_workload::plan::{Action, PodPatch};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::simulation::World;

/// As OpenKruise's webhook stores it, with defaults.
fn template(image: &str) -> Value {
    json!({
        "metadata": {"annotations": {"note": "a < b"}, "creationTimestamp": null, "labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "image": image, "imagePullPolicy": "Always", "name": "main", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        },
    })
}

fn owner(version: &str) -> Value {
    json!([{
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "name": "web", "uid": "set",
        "controller": true, "blockOwnerDeletion": true,
    }])
}

fn revision(number: i64, hash: &str, image: &str) -> Value {
    let mut template = template(image);
    template["$patch"] = json!("replace");
    json!({
        "metadata": {
            "name": format!("web-{hash}"), "namespace": "default", "uid": hash, "ownerReferences": owner("v1beta1"),
            "labels": {"app": "web", "controller.kubernetes.io/hash": hash},
        },
        "revision": number,
        "data": {"spec": {"template": template}},
    })
}

fn set(image: &str, rolling_update: Value, status: Value) -> Value {
    let mut rolling = json!({
        "inPlaceUpdateStrategy": {}, "maxSurge": 0, "maxUnavailable": 3, "partition": 0,
        "podUpdatePolicy": "InPlaceIfPossible",
    });
    for (key, value) in rolling_update.as_object().unwrap() {
        rolling[key] = value.clone();
    }
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 2},
        "spec": {
            "replicas": 3, "revisionHistoryLimit": 10, "scaleStrategy": {"enablePVCReuse": true},
            "selector": {"matchLabels": {"app": "web"}}, "template": template(image),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
        "status": status,
    })
}

fn status(updated: i32, expected: i32, current: &str) -> Value {
    json!({
        "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": updated,
        "updatedReadyReplicas": updated, "updatedAvailableReplicas": updated, "expectedUpdatedReplicas": expected,
        "updateRevision": "web-22", "currentRevision": current, "collisionCount": 0, "labelSelector": "app=web",
    })
}

/// A settled pod, created at revision 11 of `web:1`, or updated in place to 22 of `web:2`.
fn pod(id: &str, updated: bool) -> Value {
    let (hash, image) = if updated {
        ("22", "web:2")
    } else {
        ("11", "web:1")
    };
    let ready = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": "1970-01-02T00:00:00Z"});
    let mut pod = json!({
        "metadata": {
            "name": format!("web-{id}"), "namespace": "default", "uid": format!("uid-{id}"), "generation": 1,
            "generateName": "web-", "creationTimestamp": "1970-01-01T00:00:00Z", "ownerReferences": owner("v1alpha1"),
            "labels": {
                "app": "web", "apps.kruise.io/cloneset-instance-id": id,
                "controller-revision-hash": format!("web-{hash}"), "pod-template-hash": hash,
                "lifecycle.apps.kruise.io/state": "Normal",
            },
            "annotations": {"note": "a < b", "lifecycle.apps.kruise.io/timestamp": "1970-01-02T00:00:00Z"},
        },
        "spec": {
            "nodeName": "node", "containers": [{"name": "main", "image": image}],
            "readinessGates": [{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}],
        },
        "status": {
            "phase": "Running", "observedGeneration": 1,
            "conditions": [ready("KruisePodReady"), ready("InPlaceUpdateReady"), ready("Ready")],
            "containerStatuses": [{
                "name": "main", "image": image, "imageID": format!("sha256:{image}"), "ready": true, "restartCount": 0,
                "containerID": format!("containerd://{id}"),
            }],
        },
        "created": {"main": {"image": image, "env": {}}},
    });
    if updated {
        record(&mut pod, &json!({"main": {"imageID": "sha256:web:1"}}));
    }
    pod
}

/// The record that OpenKruise writes with the new revision's label.
fn record(pod: &mut Value, last: &Value) {
    let record = json!({
        "revision": "web-22", "updateTimestamp": "1970-01-12T13:46:40Z", "lastContainerStatuses": last,
        "updateImages": true,
    });
    pod["metadata"]["annotations"]["apps.kruise.io/inplace-update-state"] =
        json!(record.to_string());
}

/// The update of a pod to revision 22 begins.
fn begin(pod: &mut Value) {
    let labels = &mut pod["metadata"]["labels"];
    labels["controller-revision-hash"] = json!("web-22");
    labels["pod-template-hash"] = json!("22");
    labels["lifecycle.apps.kruise.io/state"] = json!("Updating");
    pod["status"]["conditions"][1]["status"] = json!("False");
    pod["status"]["conditions"][1]["reason"] = json!("StartInPlaceUpdate");
    pod["status"]["conditions"][2]["status"] = json!("False");
}

/// A pod in its grace period: all fields have the new revision, and the containers still run the
/// old one.
fn in_grace() -> Value {
    let mut pod = pod("c", false);
    begin(&mut pod);
    record(&mut pod, &Value::Null);
    // {"metadata":{"annotations":{"gone":null,"kept":"2","new":"<3"}}}
    let left = json!({
        "revision": "web-22", "containerImages": {"main": "web:2"}, "graceSeconds": 150,
        "metaDataPatch": "eyJtZXRhZGF0YSI6eyJhbm5vdGF0aW9ucyI6eyJnb25lIjpudWxsLCJrZXB0IjoiMiIsIm5ldyI6Ilx1MDAzYzMifX19",
    });
    let annotations = &mut pod["metadata"]["annotations"];
    annotations["apps.kruise.io/inplace-update-grace"] = json!(left.to_string());
    annotations["gone"] = json!("1");
    annotations["kept"] = json!("1");
    pod
}

fn revisions() -> Vec<Value> {
    vec![revision(1, "11", "web:1"), revision(2, "22", "web:2")]
}

/// A CloneSet whose update to `web:2` is done for all pods but the last.
fn world(last: Value) -> World {
    let set = set("web:2", json!({}), status(3, 3, "web-22"));
    World::of(set, revisions(), vec![pod("a", true), pod("b", true), last])
}

fn patches(world: &World) -> Vec<PodPatch> {
    let plan = world.plan();
    let actions = plan.actions();
    let patches = actions.map(|action| match action {
        Action::PatchPod { patch, .. } => patch.clone(),
        other => panic!("{} is not to be written", other.write()),
    });
    patches.collect()
}

#[test]
fn settled_pods_are_not_written() {
    // Pods from before the gates and the lifecycle label existed, too.
    let mut ancient = pod("c", true);
    ancient["spec"]["readinessGates"] = json!([]);
    ancient["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("lifecycle.apps.kruise.io/state");
    let partition = json!({"partition": 2});
    let table = [
        (
            set("web:2", json!({}), status(3, 3, "web-22")),
            [pod("a", true), pod("b", true), pod("c", true)],
        ),
        (
            set("web:2", json!({}), status(3, 3, "web-22")),
            [pod("a", true), pod("b", true), ancient],
        ),
        (
            set("web:2", partition, status(1, 1, "web-11")),
            [pod("a", true), pod("b", false), pod("c", false)],
        ),
        (
            set(
                "web:2",
                json!({"podUpdatePolicy": "ReCreate"}),
                status(3, 3, "web-22"),
            ),
            [pod("a", true), pod("b", true), pod("c", true)],
        ),
    ];
    for (set, pods) in table {
        let world = World::of(set.clone(), revisions(), pods.to_vec());
        let plan = world.plan();
        assert!(
            plan.is_idle() && plan.events.is_empty() && plan.refusal.is_none(),
            "{plan:#?}"
        );
        assert_eq!(
            serde_json::to_value(world.status()).unwrap(),
            set["status"],
            "no status is written either"
        );
    }
}

#[test]
fn template_without_defaults_changes_only_labels() {
    // kubectl replaces the list of containers by one without the defaults that OpenKruise's webhook
    // wrote.
    for policy in ["InPlaceIfPossible", "InPlaceOnly", "ReCreate"] {
        let mut bare = set(
            "web:2",
            json!({"podUpdatePolicy": policy}),
            status(3, 3, "web-22"),
        );
        bare["spec"]["template"]["spec"] =
            json!({"containers": [{"name": "main", "image": "web:2"}]});
        let mut world = World::of(
            bare,
            revisions(),
            vec![pod("a", true), pod("b", true), pod("c", true)],
        );
        let before = (world.identities(), world.containers());
        world.settle();
        assert_eq!(
            (world.identities(), world.containers()),
            before,
            "{policy}: no pod was replaced or restarted"
        );
        assert_eq!(
            (world.status().updated_available_replicas, world.revisions()),
            (3, 3),
            "{policy}"
        );
    }
}

#[test]
fn an_image_changed_by_kubectl_goes_in_place() {
    let mut bare = set("web:2", json!({}), status(3, 3, "web-22"));
    bare["spec"]["template"]["spec"]["containers"] = json!([{"name": "main", "image": "web:3"}]);
    let mut world = World::of(
        bare,
        revisions(),
        vec![pod("a", true), pod("b", true), pod("c", true)],
    );
    let before = world.identities();
    world.settle();
    assert_eq!(world.identities(), before, "the same pods");
    assert!(world.created_from().iter().all(|image| image == "web:3"));
}

#[test]
fn update_in_grace_period_is_finished_as_begun() {
    let mut world = world(in_grace());
    world.pass(50);
    let plan = world.plan();
    assert!(plan.is_idle(), "{plan:#?}");
    assert_eq!(plan.look_again, Some(SignedDuration::from_secs(100)));
    world.pass(100);
    let patch = patches(&world).remove(0);
    assert_eq!(
        patch.images,
        [("main".to_owned(), "web:2".to_owned())].into()
    );
    assert_eq!(patch.annotations["gone"], None);
    assert_eq!(patch.annotations["kept"].as_deref(), Some("2"));
    assert_eq!(patch.annotations["new"].as_deref(), Some("<3"));
    assert_eq!(
        patch.annotations["apps.kruise.io/inplace-update-grace"],
        None
    );
    let before = world.identities();
    world.settle();
    assert_eq!(world.identities(), before);
    assert!(
        world.created_from().iter().all(|image| image == "web:2"),
        "{:?}",
        world.created_from()
    );
    assert_eq!(world.status().updated_available_replicas, 3);
}

#[test]
fn a_rollback_in_that_grace_period_ends_too() {
    let mut world = world(in_grace());
    world.set_template(template("web:1"));
    world.settle();
    assert!(
        world.created_from().iter().all(|image| image == "web:1"),
        "{:?}",
        world.created_from()
    );
    assert_eq!(world.status().updated_available_replicas, 3);
}

#[test]
fn old_or_unreadable_grace_annotation_still_ends() {
    let key = "apps.kruise.io/inplace-update-grace";
    let rename = |pod: &mut Value, old: &str, new: &str| {
        let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
        let value = annotations.remove(old).unwrap();
        annotations.insert(new.to_owned(), value);
    };
    let mut ancient = in_grace();
    rename(&mut ancient, key, "inplace-update-grace");
    rename(
        &mut ancient,
        "apps.kruise.io/inplace-update-state",
        "inplace-update-state",
    );
    let mut broken = in_grace();
    broken["metadata"]["annotations"][key] = json!("{");
    for (what, pod) in [("old", ancient), ("broken", broken)] {
        let mut world = world(pod);
        world.settle();
        assert!(
            world.created_from().iter().all(|image| image == "web:2"),
            "{what}: {:?}",
            world.created_from()
        );
        assert_eq!(world.status().updated_available_replicas, 3, "{what}");
        assert!(world.plan().is_idle(), "{what}");
    }
}

#[test]
fn an_update_that_was_written_is_proven() {
    // Written, and the kubelet has or has not seen it.
    for seen in [false, true] {
        let mut last = pod("c", false);
        begin(&mut last);
        record(&mut last, &json!({"main": {"imageID": "sha256:web:1"}}));
        last["spec"]["containers"][0]["image"] = json!("web:2");
        last["metadata"]["generation"] = json!(2);
        let mut world = world(last);
        if seen {
            world.run_kubelets();
        }
        let containers = world.containers();
        if !seen {
            assert!(
                world.plan().is_idle(),
                "nothing is believed before the kubelet has acted"
            );
        }
        world.settle();
        assert_eq!(
            world.containers() == containers,
            seen,
            "no restart but that of the update"
        );
        assert!(world.created_from().iter().all(|image| image == "web:2"));
        assert_eq!(world.status().updated_available_replicas, 3);
    }
}

#[test]
fn a_pod_without_gates_is_updated_in_place() {
    let mut last = pod("c", false);
    last["spec"]["readinessGates"] = json!([]);
    last["status"]["conditions"] = json!([last["status"]["conditions"][2]]);
    let mut world = world(last);
    let before = world.identities();
    world.settle();
    assert_eq!(world.identities(), before);
    assert!(world.created_from().iter().all(|image| image == "web:2"));
    assert_eq!(world.status().updated_available_replicas, 3);
}

#[test]
fn what_is_written_is_recognised_by_openkruise() {
    let mut world = world(pod("c", true));
    world.set_template(template("web:3"));
    let plan = world.plan();
    let body = plan.stages[0].steps[0]
        .actions
        .iter()
        .find_map(|action| match action {
            Action::CreateRevision { body } => Some(body.value()),
            _ => None,
        });
    let body = body.unwrap();
    let text = r#"{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"note":"a \u003c b"},"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[{"image":"web:3","imagePullPolicy":"Always","name":"main","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
    assert_eq!(
        berth_workload::update::revision::form::text(&body["data"]),
        text
    );
    assert_eq!(body["revision"], 3);
    assert_eq!(body["metadata"]["ownerReferences"], owner("v1beta1"));
    let hash = berth_workload::update::revision::hash(&body["data"], 0);
    assert_eq!(body["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(
        body["metadata"]["labels"],
        json!({"app": "web", "controller.kubernetes.io/hash": hash})
    );
    world.settle();
}

/// A world whose last pod is between two batches of its update: `main` is updated, `side` is not
/// yet.
fn between_batches(image: &str, side: &str, ready: bool) -> World {
    let add = |template: &mut Value, image: &str| {
        let mut container = template["spec"]["containers"][0].clone();
        container["name"] = json!("side");
        container["image"] = json!(image);
        container["env"] = json!([{"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}}]);
        template["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(container);
    };
    let mut set = set(image, json!({}), status(3, 3, "web-22"));
    add(&mut set["spec"]["template"], side);
    let mut revisions = revisions();
    for (revision, image) in revisions.iter_mut().zip(["side:1", "side:2"]) {
        add(&mut revision["data"]["spec"]["template"], image);
    }
    let mut pods = [pod("a", true), pod("b", true), pod("c", true)];
    for (pod, image) in pods.iter_mut().zip(["side:2", "side:2", "side:1"]) {
        add(pod, image);
        let mut status = pod["status"]["containerStatuses"][0].clone();
        status["name"] = json!("side");
        status["containerID"] = json!(format!("containerd://side-{image}"));
        pod["created"]["side"] = json!({"image": image, "env": {}});
        pod["status"]["containerStatuses"]
            .as_array_mut()
            .unwrap()
            .push(status);
    }
    let last = &mut pods[2];
    begin(last);
    last["status"]["containerStatuses"][0]["ready"] = json!(ready);
    let record = json!({
        "revision": "web-22", "updateTimestamp": "1970-01-12T13:46:40Z", "updateImages": true,
        "lastContainerStatuses": {"main": {"imageID": "sha256:web:1"}},
        "nextContainerImages": {"side": "side:2"}, "preCheckBeforeNext": {"containersRequiredReady": ["main"]},
    });
    last["metadata"]["annotations"]["apps.kruise.io/inplace-update-state"] =
        json!(record.to_string());
    World::of(set, revisions, pods.to_vec())
}

#[test]
fn an_update_between_two_batches_goes_on() {
    let waiting = between_batches("web:2", "side:2", false).plan();
    assert!(
        waiting.is_idle() && waiting.waiting[0].reason.contains("main is to be ready"),
        "{waiting:#?}"
    );
    let world = between_batches("web:2", "side:2", true);
    let patch = patches(&world).remove(0);
    assert_eq!(
        patch.images,
        [("side".to_owned(), "side:2".to_owned())].into()
    );
    let record: Value = serde_json::from_str(
        patch.annotations["apps.kruise.io/inplace-update-state"]
            .as_deref()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(record["nextContainerImages"], Value::Null);
    let (mut world, before) = (world, between_batches("web:2", "side:2", true).identities());
    world.settle();
    assert_eq!(
        (
            world.identities(),
            world.status().updated_available_replicas
        ),
        (before, 3)
    );
}

#[test]
fn revision_between_batches_includes_pending_images() {
    // Both revisions have the same image of `side`, and the pod has another.
    let mut world = between_batches("web:3", "side:2", false);
    world.step();
    let images: Vec<_> = patches_of(&world, "web-c");
    let expected = [("main", "web:3"), ("side", "side:2")]
        .map(|(name, image)| (name.to_owned(), image.to_owned()));
    assert_eq!(images, [expected.into()]);
}

#[test]
fn pending_label_change_restarts_its_readers() {
    // The update continues, or another revision includes the rest of it.
    for image in ["web:2", "web:3"] {
        let mut world = between_batches(image, "side:2", true);
        let pod = world.pods.get_mut("web-c").unwrap();
        pod["spec"]["containers"][1]["image"] = json!("side:2");
        pod["created"]["side"]["image"] = json!("side:2");
        let record = &mut pod["metadata"]["annotations"]["apps.kruise.io/inplace-update-state"];
        let mut left: Value = serde_json::from_str(record.as_str().unwrap()).unwrap();
        left.as_object_mut().unwrap().remove("nextContainerImages");
        left["nextContainerRefMetadata"] =
            json!({"side": {"creationTimestamp": null, "labels": {"tier": "2"}}});
        *record = json!(left.to_string());
        world.settle();
        assert_eq!(world.restarts("side"), [0, 0, 1], "{image}");
        assert_eq!(
            world.environments("side")[2],
            json!({"TIER": "2"}),
            "{image}"
        );
        assert_eq!(world.status().updated_available_replicas, 3, "{image}");
        let record = world
            .annotations("apps.kruise.io/inplace-update-state")
            .remove(2);
        let record: Value = serde_json::from_str(record.as_str().unwrap()).unwrap();
        assert_eq!(record["nextContainerRefMetadata"], Value::Null, "{image}");
    }
}

/// The images that are patched on one pod.
fn patches_of(world: &World, pod: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let plan = world.plan();
    let actions = plan.actions();
    let patches = actions.filter_map(|action| match action {
        Action::PatchPod { target, patch } if target.name == pod => Some(patch.images.clone()),
        _ => None,
    });
    patches.collect()
}

#[test]
fn held_pod_stays_held_until_its_hook_releases_it() {
    let mut set = set("web:2", json!({}), status(2, 3, "web-22"));
    set["spec"]["lifecycle"] =
        json!({"inPlaceUpdate": {"labelsHandler": {"example.com/hooked": "true"}}});
    let mut last = pod("c", false);
    last["metadata"]["labels"]["example.com/hooked"] = json!("true");
    last["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] = json!("PreparingUpdate");
    let held = World::of(
        set.clone(),
        revisions(),
        vec![pod("a", true), pod("b", true), last.clone()],
    );
    assert!(held.plan().is_idle(), "{:#?}", held.plan());
    last["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("example.com/hooked");
    let mut free = World::of(set, revisions(), vec![pod("a", true), pod("b", true), last]);
    let before = free.identities();
    free.settle();
    assert_eq!(free.identities(), before);
    assert!(free.created_from().iter().all(|image| image == "web:2"));
}

#[test]
fn revision_gets_the_change_cause_of_its_rollout() {
    let caused = |cause: &str, image: &str| {
        let mut world = World::settled(1, template("web:1"), json!({}));
        let set = Arc::make_mut(&mut world.set);
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert(CHANGE_CAUSE.to_owned(), cause.to_owned());
        world.set_template(template("web:2"));
        if image == "web:1" {
            world.settle();
            world.set_template(template(image));
        }
        let plan = world.plan();
        let mut actions = plan.stages[0].steps[0].actions.iter();
        let written = actions.find_map(|action| match action {
            Action::CreateRevision { body } => {
                Some(body.value()["metadata"]["annotations"].clone())
            }
            Action::RenumberRevision { annotations, .. } => Some(json!(annotations)),
            _ => None,
        });
        written.unwrap()[CHANGE_CAUSE].clone()
    };
    assert_eq!(caused("new logo", "web:2"), "new logo");
    assert_eq!(caused("old logo", "web:1"), "old logo");
    assert_eq!(caused(&"x".repeat(1025), "web:2"), Value::Null);
}
