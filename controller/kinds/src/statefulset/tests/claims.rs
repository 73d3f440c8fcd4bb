//! Claims: made before their pods, given back, kept or deleted.

use berth_workload::feature_gates::Gate;
use serde_json::{Value, json};

use super::super::simulation::{World, written};

fn with_claims(replicas: i32, fields: Value) -> World {
    let mut world = World::new(replicas, fields);
    let template = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    world.merge(&json!({"volumeClaimTemplates": [template]}));
    world
}

fn claims(world: &mut World) -> Vec<String> {
    world.claims.stored().keys().cloned().collect()
}

fn owners(world: &mut World, claim: &str) -> Vec<String> {
    let owners = world.claims.stored()[claim]["metadata"]["ownerReferences"]
        .as_array()
        .unwrap()
        .clone();
    owners
        .iter()
        .map(|owner| owner["kind"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn claim_precedes_its_pod_and_is_reused_by_name() {
    let mut world = with_claims(2, json!({}));
    world.step();
    world.step();
    assert_eq!(claims(&mut world), ["data-db-0"]);
    assert_eq!(
        world.claims.stored()["data-db-0"]["metadata"]["labels"],
        json!({"app": "db"})
    );
    world.settle();
    world.edit(|spec| spec.replicas = Some(1));
    world.settle();
    assert_eq!(claims(&mut world), ["data-db-0", "data-db-1"], "it stays");
    let before = world.claims.stored()["data-db-1"].clone();
    world.edit(|spec| spec.replicas = Some(2));
    world.settle();
    assert_eq!(world.claims.stored()["data-db-1"], before);
    let volume = &world.pods["db-1"]["spec"]["volumes"][0];
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], "data-db-1");
}

#[test]
fn deleted_claim_of_pending_pod_is_created_again() {
    let mut world = with_claims(1, json!({}));
    world.step();
    world.step();
    world.claims.stored().clear();
    assert_eq!(
        written(&world.step()),
        ["CreatePersistentVolumeClaim data-db-0"]
    );
}

#[test]
fn owners_of_claims_are_as_the_policy_wants() {
    for (deleted, scaled, running, condemned) in [
        ("Retain", "Retain", vec![], vec![]),
        ("Delete", "Retain", vec!["StatefulSet"], vec!["StatefulSet"]),
        ("Retain", "Delete", vec![], vec!["Pod"]),
        ("Delete", "Delete", vec!["StatefulSet"], vec!["Pod"]),
    ] {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        let mut world = with_claims(2, json!({"persistentVolumeClaimRetentionPolicy": policy}));
        world.settle();
        assert_eq!(owners(&mut world, "data-db-1"), running, "{policy}");
        world.edit(|spec| spec.replicas = Some(1));
        world.step();
        assert!(!world.pods["db-1"]["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(
            owners(&mut world, "data-db-1"),
            condemned,
            "before the pod is deleted: {policy}"
        );
        world.settle();
        let left = if scaled == "Delete" {
            vec!["data-db-0"]
        } else {
            vec!["data-db-0", "data-db-1"]
        };
        assert_eq!(claims(&mut world), left, "{policy}");
        world.merge(&json!({"persistentVolumeClaimRetentionPolicy": null}));
        world.settle();
        assert_eq!(
            owners(&mut world, "data-db-0"),
            Vec::<String>::new(),
            "{policy}"
        );
    }
}

fn blocked(world: &World) -> Option<String> {
    world
        .status()
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == "Blocked")
        .map(|blocked| blocked.message)
}

/// As Kubernetes' StatefulSet made them, before the takeover.
#[test]
fn claims_of_others_get_no_owner_until_annotated() {
    let mut world = with_claims(1, json!({}));
    world.settle();
    world.claims.stored().get_mut("data-db-0").unwrap()["metadata"]["annotations"] = json!({});
    world.merge(&json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}));
    world.settle();
    assert_eq!(owners(&mut world, "data-db-0"), Vec::<String>::new());
    let blocked = blocked(&world).unwrap();
    let command = "`kubectl annotate --overwrite persistentvolumeclaim data-db-0 -n default apps.kruise.io/owned-by-asts=db`";
    assert!(blocked.ends_with(command), "{blocked}");
    let annotations = json!({"apps.kruise.io/owned-by-asts": "db"});
    world.claims.stored().get_mut("data-db-0").unwrap()["metadata"]["annotations"] = annotations;
    world.settle();
    assert_eq!(owners(&mut world, "data-db-0"), ["StatefulSet"]);
    assert_eq!(self::blocked(&world), None);
}

/// As OpenKruise made them.
#[test]
fn owned_claims_are_annotated_when_written() {
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let mut world = with_claims(2, json!({"persistentVolumeClaimRetentionPolicy": policy}));
    world.settle();
    world.claims.stored().get_mut("data-db-1").unwrap()["metadata"]["annotations"] = json!({});
    world.edit(|spec| spec.replicas = Some(1));
    world.step();
    assert_eq!(owners(&mut world, "data-db-1"), ["Pod"]);
    let annotations = &world.claims.stored()["data-db-1"]["metadata"]["annotations"];
    assert_eq!(annotations["apps.kruise.io/owned-by-asts"], "db");
}

#[test]
fn claim_is_kept_when_its_pod_is_wanted_again() {
    let hook = json!({"preDelete": {"finalizersHandler": ["example.com/in-use"]}});
    let policy = json!({"whenScaled": "Delete"});
    let mut world = with_claims(
        2,
        json!({"persistentVolumeClaimRetentionPolicy": policy, "lifecycle": hook}),
    );
    world.settle();
    world.pods.get_mut("db-1").unwrap()["metadata"]["finalizers"] = json!(["example.com/in-use"]);
    world.edit(|spec| spec.replicas = Some(1));
    world.step();
    assert_eq!(owners(&mut world, "data-db-1"), ["Pod"]);
    world.edit(|spec| spec.replicas = Some(2));
    let plan = world.step();
    assert_eq!(
        written(&plan)[0],
        "PatchPersistentVolumeClaim data-db-1",
        "first of all"
    );
    assert_eq!(owners(&mut world, "data-db-1"), Vec::<String>::new());
}

#[test]
fn claim_of_removed_template_stays_with_kept_pod() {
    let hook = json!({"preDelete": {"finalizersHandler": ["example.com/in-use"]}});
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    let mut world = with_claims(
        2,
        json!({"persistentVolumeClaimRetentionPolicy": policy, "lifecycle": hook}),
    );
    world.settle();
    world.pods.get_mut("db-1").unwrap()["metadata"]["finalizers"] = json!(["example.com/in-use"]);
    world.edit(|spec| spec.replicas = Some(1));
    world.step();
    world.merge(&json!({"volumeClaimTemplates": []}));
    world.step();
    assert_eq!(
        owners(&mut world, "data-db-1"),
        ["Pod"],
        "it goes with its pod, as was decided"
    );
    world.edit(|spec| spec.replicas = Some(2));
    world.step();
    assert_eq!(owners(&mut world, "data-db-1"), ["StatefulSet"]);
    assert_eq!(
        owners(&mut world, "data-db-0"),
        ["StatefulSet"],
        "the others are as they were"
    );
}

#[test]
fn new_pod_waits_for_the_end_of_its_old_claim() {
    let mut world = with_claims(2, json!({}));
    world.settle();
    world.delete("db-1");
    world.run_kubelets();
    let claim = world.claims.stored().get_mut("data-db-1").unwrap();
    claim["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
    let plan = world.plan();
    assert_eq!(written(&plan), Vec::<String>::new());
    assert!(
        plan.waiting
            .iter()
            .any(|w| w.reason.contains("data-db-1 is being deleted")),
        "{:?}",
        plan.waiting
    );
    // The same for a claim that belongs to an earlier pod.
    let claim = world.claims.stored().get_mut("data-db-1").unwrap();
    claim["metadata"]["deletionTimestamp"] = Value::Null;
    claim["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "db-1", "uid": "gone"}]);
    assert!(written(&world.plan()).is_empty());
}

#[test]
fn claim_of_another_controller_is_never_written() {
    let mut world = with_claims(
        1,
        json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
    );
    world.settle();
    let other = json!([{"apiVersion": "x.io/v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]);
    world.claims.stored().get_mut("data-db-0").unwrap()["metadata"]["ownerReferences"] = other;
    assert!(world.plan().is_idle());
}

fn growing(replicas: i32, fields: Value) -> World {
    let mut world = with_claims(replicas, fields);
    world.merge(&json!({"volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}}));
    world.gates = world.gates.with(Gate::StatefulSetAutoResizePVC, true);
    world.settle();
    bind(&mut world);
    world
}

/// Gives each volume the size that its claim requests.
fn bind(world: &mut World) {
    for claim in world.claims.stored().values_mut() {
        claim["status"]["capacity"] = claim["spec"]["resources"]["requests"].clone();
    }
}

fn ask_for(world: &mut World, storage: &str) {
    let template = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": storage}}}});
    world.merge(&json!({"volumeClaimTemplates": [template]}));
}

fn requests(world: &mut World) -> Vec<String> {
    let of = |claim: &Value| {
        claim["spec"]["resources"]["requests"]["storage"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    world.claims.stored().values().map(of).collect()
}

#[test]
fn claims_grow_pod_by_pod_without_pod_updates() {
    let mut world = growing(2, json!({}));
    let before = [world.uid("db-0"), world.uid("db-1")];
    ask_for(&mut world, "2Gi");
    assert_eq!(
        written(&world.step()),
        ["PatchPersistentVolumeClaim data-db-1"]
    );
    assert!(
        written(&world.step()).is_empty(),
        "it has not grown yet, and the other waits"
    );
    let status = world.status();
    let claims = &status.volume_claims[0];
    assert_eq!(
        (claims.compatible_replicas, claims.compatible_ready_replicas),
        (1, 0)
    );
    bind(&mut world);
    assert_eq!(
        written(&world.step()),
        ["PatchPersistentVolumeClaim data-db-0"]
    );
    bind(&mut world);
    world.settle();
    assert_eq!([world.uid("db-0"), world.uid("db-1")], before);
    assert_eq!(world.status().volume_claims[0].compatible_ready_replicas, 2);
    // Nothing shrinks.
    ask_for(&mut world, "1Gi");
    assert!(world.plan().is_idle());
    assert_eq!(requests(&mut world), ["2Gi", "2Gi"]);
}

#[test]
fn ordered_batch_grows_claims_of_all_its_pods() {
    let rolling = json!({"rollingUpdate": {"maxUnavailable": 2}});
    let mut world = growing(3, json!({"updateStrategy": rolling}));
    ask_for(&mut world, "2Gi");
    let both = [
        "PatchPersistentVolumeClaim data-db-2",
        "PatchPersistentVolumeClaim data-db-1",
    ];
    assert_eq!(written(&world.step()), both);
    assert!(written(&world.step()).is_empty(), "db-0 waits for both");
    bind(&mut world);
    assert_eq!(
        written(&world.step()),
        ["PatchPersistentVolumeClaim data-db-0"]
    );
}

#[test]
fn update_starts_once_claims_grew_or_need_restart() {
    let mut world = growing(2, json!({}));
    ask_for(&mut world, "2Gi");
    world.set_image("db:1");
    world.step();
    assert_eq!(
        written(&world.step()),
        ["PatchPersistentVolumeClaim data-db-1"]
    );
    assert!(written(&world.step()).is_empty());
    let pending = json!([{"type": "FileSystemResizePending", "status": "True"}]);
    world.claims.stored().get_mut("data-db-1").unwrap()["status"]["conditions"] = pending;
    assert_eq!(written(&world.step()), ["DeletePod db-1"]);
    bind(&mut world);
    for _ in 0..20 {
        world.step();
        world.run_kubelets();
        world.pass(1);
        bind(&mut world);
    }
    world.settle();
    assert_eq!(
        (world.images(), requests(&mut world)),
        (
            vec!["db-0 1".into(), "db-1 1".into()],
            vec!["2Gi".into(), "2Gi".into()]
        )
    );
}

#[test]
fn without_the_gate_or_the_strategy_no_claim_grows() {
    let mut world = with_claims(1, json!({}));
    world.settle();
    ask_for(&mut world, "2Gi");
    assert!(world.plan().is_idle());
    assert_eq!(
        world.status().volume_claims[0].compatible_replicas,
        0,
        "the status counts no compatible claim"
    );
}

#[test]
fn claim_of_another_class_blocks_its_pod() {
    let mut world = growing(1, json!({}));
    world.claims.stored().get_mut("data-db-0").unwrap()["spec"]["storageClassName"] = json!("slow");
    let template = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
    world.merge(&json!({"volumeClaimTemplates": [template]}));
    world.set_image("db:1");
    world.settle();
    let blocked = world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert_eq!(
        (world.images(), blocked.reason.as_str()),
        (vec!["db-0 0".to_owned()], "ClaimDiffers")
    );
}
