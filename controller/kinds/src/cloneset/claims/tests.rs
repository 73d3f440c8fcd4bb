use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::fields::template::VolumeClaimTemplate;
use berth_workload::feature_gates::Gate;
use berth_workload::plan::{Action, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cloneset::simulation::{World, template};

fn claim_template(name: &str, size: &str) -> VolumeClaimTemplate {
    VolumeClaimTemplate::from(&json!({
        "metadata": {"name": name, "labels": {"app": "other", "tier": "data"}, "annotations": {"note": "x"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }))
}

fn world(replicas: i32, policy: &str, reuse: bool) -> World {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy, "maxUnavailable": 1}});
    let mut world = World::new(replicas, template("web:1"), strategy);
    let spec = &mut Arc::make_mut(&mut world.set).spec;
    spec.volume_claim_templates = vec![claim_template("data", "1Gi"), claim_template("log", "1Gi")];
    spec.scale_strategy.enable_pvc_reuse = reuse;
    world.settle();
    world
}

fn kinds(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .flat_map(|step| &step.actions)
        .map(|action| action.write().to_string())
        .collect()
}

/// Uids of the claims by name.
fn claims(world: &World) -> Vec<(String, String)> {
    let claims = world.claims.seen();
    claims
        .iter()
        .map(|claim| {
            (
                claim.metadata.name.to_string(),
                claim.metadata.uid.to_string(),
            )
        })
        .collect()
}

fn scale(world: &mut World, replicas: i32) {
    Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
}

fn edit_env(world: &mut World) {
    world.edit_template(|t| {
        t["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}])
    });
}

fn name_of(world: &World, at: usize) -> Option<String> {
    world.pods.keys().nth(at).cloned()
}

/// A user deletes a pod. The pod stays while its containers end.
fn delete_by_hand(world: &mut World, at: usize) {
    if let Some(name) = name_of(world, at) {
        let now = world.now();
        world.pods.get_mut(&name).unwrap()["metadata"]["deletionTimestamp"] = json!(now);
    }
}

/// The kubelet ends the pods that are being deleted.
fn end_deleted(world: &mut World) {
    world
        .pods
        .retain(|_, pod| pod["metadata"]["deletionTimestamp"].is_null());
    world.claims.collect_garbage(&world.pods);
}

#[test]
fn a_pod_is_made_after_its_claims_and_mounts_them() {
    let world = world(1, "ReCreate", false);
    let (pod, id) = {
        let (name, pod) = world.pods.iter().next().unwrap();
        (pod, name.strip_prefix("web-").unwrap().to_owned())
    };
    let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-web-{id}")}});
    assert_eq!(
        pod["spec"]["volumes"],
        json!([volume("data"), volume("log")])
    );
    let claim = &world.claims.seen()[0].metadata;
    assert_eq!(*claim.name, *format!("data-web-{id}"));
    for (key, value) in [
        ("app", "web"),
        ("tier", "data"),
        ("apps.kruise.io/cloneset-instance-id", &id),
    ] {
        assert_eq!(
            claim.label(key),
            Some(value),
            "the selector's labels stand above the template's"
        );
    }
    let owner = claim.controller().unwrap();
    assert_eq!(
        (&*owner.kind, &*owner.name, &*owner.uid),
        ("CloneSet", "web", "set")
    );
}

#[test]
fn template_is_validated_with_its_claim_volumes() {
    let mut world = world(1, "ReCreate", false);
    world.set_template(template("web:2"));
    let plan = world.plan();
    let Action::ValidateTemplate { template, .. } = &plan.stages[0].steps[0].actions[0] else {
        panic!("{plan:?}")
    };
    assert_eq!(template.value()["spec"]["volumes"][0]["name"], "data");
    assert!(
        world.set.spec.template.value()["spec"]
            .get("volumes")
            .is_none(),
        "the revision has the template as written"
    );
}

#[test]
fn pod_deleted_by_controller_takes_its_claims_along() {
    for reuse in [false, true] {
        let mut world = world(2, "ReCreate", reuse);
        scale(&mut world, 1);
        assert_eq!(
            kinds(&world.step()),
            [
                "PatchPersistentVolumeClaim",
                "PatchPersistentVolumeClaim",
                "DeletePod"
            ],
            "reuse {reuse}"
        );
        world.settle();
        assert_eq!(claims(&world).len(), 2, "reuse {reuse}");
        let before = claims(&world);
        edit_env(&mut world);
        world.settle();
        assert!(
            claims(&world).iter().all(|claim| !before.contains(claim)),
            "an update by a new pod takes new claims"
        );
    }
}

#[test]
fn a_claim_that_is_on_its_way_out_is_left_alone() {
    let mut world = world(2, "ReCreate", false);
    let gone = name_of(&world, 0).unwrap();
    let id = gone.strip_prefix("web-").unwrap().to_owned();
    for claim in world.claims.stored().values_mut() {
        let name = claim["metadata"]["name"].as_str().unwrap();
        if name.ends_with(&id) {
            // Another object than a pod holds it.
            claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
    }
    world.pods.remove(&gone);
    scale(&mut world, 1);
    assert_eq!(
        kinds(&world.plan()),
        [""; 0],
        "the claim is deleted only once"
    );
}

#[test]
fn an_update_in_place_keeps_the_claims() {
    let mut world = world(2, "InPlaceIfPossible", false);
    let before = claims(&world);
    world.set_template(template("web:2"));
    world.settle();
    assert_eq!(claims(&world), before);
}

#[test]
fn reuse_keeps_claims_of_pod_deleted_by_others() {
    let mut world = world(2, "ReCreate", true);
    let (before, names) = (
        claims(&world),
        world.pods.keys().cloned().collect::<Vec<_>>(),
    );
    delete_by_hand(&mut world, 0);
    let plan = world.step();
    assert!(
        plan.is_idle(),
        "the name is taken until the pod has gone: {plan:?}"
    );
    assert!(
        plan.waiting
            .iter()
            .any(|w| w.pod == names[0] && w.reason.contains("waits for its end")),
        "{plan:?}"
    );
    end_deleted(&mut world);
    assert_eq!(kinds(&world.step()), ["CreatePod"], "its claims are there");
    world.settle();
    assert_eq!(
        (claims(&world), world.pods.keys().cloned().collect()),
        (before, names)
    );
}

#[test]
fn ended_pod_is_replaced_and_its_claims_are_reused() {
    let mut world = world(2, "ReCreate", true);
    let before = claims(&world);
    let name = name_of(&world, 0).unwrap();
    world.pods.get_mut(&name).unwrap()["status"]["phase"] = json!("Failed");
    assert_eq!(kinds(&world.step()), ["DeletePod"]);
    world.settle();
    assert_eq!(
        (claims(&world), world.status().available_replicas),
        (before, 2)
    );
}

#[test]
fn ended_pod_is_deleted_after_its_hook_releases_it() {
    let mut world = world(2, "ReCreate", true);
    let before = claims(&world);
    world.set_lifecycle(json!({"preDelete": {"labelsHandler": {"x.io/hook": "on"}}}));
    world.label(0, "x.io/hook", "on");
    let name = name_of(&world, 0).unwrap();
    world.pods.get_mut(&name).unwrap()["status"]["phase"] = json!("Failed");
    assert_eq!(
        kinds(&world.step()),
        ["PatchPodStatus"],
        "the lifecycle state notifies the hook's owner"
    );
    let labels = &world.pods[&name]["metadata"]["labels"];
    assert_eq!(labels["lifecycle.apps.kruise.io/state"], "PreparingDelete");
    let plan = world.step();
    assert!(plan.is_idle(), "{plan:?}");
    let waiting = plan
        .waiting
        .iter()
        .find(|waiting| waiting.pod == name)
        .unwrap();
    assert!(
        waiting.reason.contains("hook preDelete holds it"),
        "{}",
        waiting.reason
    );
    world.label(0, "x.io/hook", "off");
    assert_eq!(kinds(&world.step()), ["DeletePod"]);
    world.settle();
    assert_eq!(
        (claims(&world), world.status().available_replicas),
        (before, 2)
    );
}

#[test]
fn without_reuse_any_pod_deletion_deletes_claims() {
    let mut world = world(2, "ReCreate", false);
    let id = name_of(&world, 0).unwrap();
    delete_by_hand(&mut world, 0);
    let plan = world.step();
    assert_eq!(
        kinds(&plan),
        [
            "CreatePersistentVolumeClaim",
            "CreatePersistentVolumeClaim",
            "CreatePod",
            "PatchPersistentVolumeClaim",
            "PatchPersistentVolumeClaim"
        ]
    );
    end_deleted(&mut world);
    world.settle();
    assert_eq!(claims(&world).len(), 4);
    assert!(!world.pods.contains_key(&id), "the next pod has another id");
    // A pod that was gone before the controller saw its deletion.
    let name = name_of(&world, 0).unwrap();
    world.pods.remove(&name);
    let plan = world.step();
    assert!(
        kinds(&plan).ends_with(
            &["DeletePersistentVolumeClaim", "DeletePersistentVolumeClaim"].map(str::to_owned)
        ),
        "{plan:?}"
    );
    world.settle();
    assert_eq!(claims(&world).len(), 4);
}

#[test]
fn a_claim_that_is_being_deleted_blocks_its_id() {
    let mut world = world(1, "ReCreate", true);
    let name = name_of(&world, 0).unwrap();
    let claim = world.claims.seen()[0].target();
    world.claims.write(&Action::DeleteClaim { target: claim });
    delete_by_hand(&mut world, 0);
    world.settle();
    assert!(
        !world
            .pods
            .keys()
            .any(|new| *new == name && world.pods[new]["metadata"]["deletionTimestamp"].is_null())
    );
    end_deleted(&mut world);
    world.settle();
    let mounted = &world.pods.values().next().unwrap()["spec"]["volumes"][0]["persistentVolumeClaim"]
        ["claimName"];
    assert!(
        claims(&world).iter().any(|(name, _)| mounted == name),
        "{:?}",
        claims(&world)
    );
}

#[test]
fn a_pod_that_stays_after_all_gets_its_claims_back() {
    let mut world = world(2, "ReCreate", true);
    scale(&mut world, 1);
    let plan = world.plan();
    world.execute(&plan, 1);
    scale(&mut world, 2);
    let plan = world.step();
    assert_eq!(kinds(&plan), ["PatchPersistentVolumeClaim"], "{plan:?}");
    assert!(plan.stages[0].steps[0].reason.contains("stays after all"));
    assert!(
        world
            .claims
            .seen()
            .iter()
            .all(|claim| claim.metadata.controller().is_some())
    );
    assert!(world.plan().is_idle());
}

#[test]
fn incomplete_claims_are_completed_and_used() {
    for reuse in [false, true] {
        let mut world = world(1, "ReCreate", reuse);
        scale(&mut world, 2);
        let plan = world.plan();
        world.execute(&plan, 1);
        assert_eq!(
            kinds(&world.step()),
            ["CreatePersistentVolumeClaim", "CreatePod"],
            "reuse {reuse}"
        );
        world.settle();
        assert_eq!(claims(&world).len(), 4);
        assert!(
            world
                .claims
                .seen()
                .iter()
                .all(|claim| !super::is_unused(claim)),
            "pods have them"
        );
        scale(&mut world, 3);
        let plan = world.plan();
        world.execute(&plan, 1);
        scale(&mut world, 2);
        let (plan, deleted): (_, &[_]) = (
            world.step(),
            if reuse {
                &[]
            } else {
                &["DeletePersistentVolumeClaim"]
            },
        );
        assert_eq!(kinds(&plan), deleted, "no pod is to come");
    }
}

#[test]
fn claim_template_recreates_pods_only_with_gate() {
    for (gate, policy, recreated) in [
        (false, "InPlaceIfPossible", false),
        (true, "InPlaceIfPossible", true),
        (true, "InPlaceOnly", false),
    ] {
        let mut world = world(2, policy, false);
        world.gates = world
            .gates
            .with(Gate::RecreatePodWhenChangeVCTInCloneSet, gate);
        let before = world.identities();
        Arc::make_mut(&mut world.set).spec.volume_claim_templates[0] =
            claim_template("data", "2Gi");
        assert!(
            world.plan().is_idle(),
            "a claim template alone changes nothing"
        );
        world.set_template(template("web:2"));
        world.settle();
        assert_eq!(
            world.identities() != before,
            recreated,
            "gate {gate}, {policy}"
        );
        world.set_template(template("web:1"));
        let plan = world.plan();
        let Action::RenumberRevision { annotations, .. } = &plan.stages[0].steps[0].actions[0]
        else {
            panic!("{plan:?}")
        };
        assert_eq!(
            annotations.len(),
            1,
            "the older revision gets the hash of the present claim templates"
        );
        let before = world.identities();
        world.settle();
        assert_eq!(
            world.identities(),
            before,
            "the claims are of the present templates"
        );
    }
}

#[test]
fn a_default_in_a_claim_template_recreates_nothing() {
    let spelt = |mode: Option<&str>| {
        let mut template = claim_template("data", "1Gi").value();
        mode.into_iter()
            .for_each(|mode| template["spec"]["volumeMode"] = json!(mode));
        VolumeClaimTemplate::from(&template)
    };
    for (before, after, recreated) in [
        (None, Some("Filesystem"), false),
        (Some("Filesystem"), None, false),
        (None, Some("Block"), true),
        (Some("Block"), None, true),
    ] {
        let mut world = world(2, "InPlaceIfPossible", false);
        world.gates = world
            .gates
            .with(Gate::RecreatePodWhenChangeVCTInCloneSet, true);
        Arc::make_mut(&mut world.set).spec.volume_claim_templates = vec![spelt(before)];
        world.set_template(template("web:2"));
        world.settle();
        let pods = world.identities();
        Arc::make_mut(&mut world.set).spec.volume_claim_templates = vec![spelt(after)];
        world.set_template(template("web:3"));
        world.settle();
        assert_eq!(
            world.identities() != pods,
            recreated,
            "{before:?} to {after:?}"
        );
    }
}

#[test]
fn claim_templates_are_refused_by_name() {
    let mut world = world(1, "ReCreate", false);
    for (name, part) in [
        ("", "pods mount the claim by this name"),
        ("log", "another claim template has this name"),
    ] {
        Arc::make_mut(&mut world.set).spec.volume_claim_templates =
            vec![claim_template("log", "1Gi"), claim_template(name, "1Gi")];
        let message = world.plan().refusal.unwrap().message;
        assert!(
            message.contains("spec.volumeClaimTemplates[1].metadata.name"),
            "{message}"
        );
        assert!(
            message.contains(part) && message.contains("default/web"),
            "{message}"
        );
    }
}

#[derive(Debug, Clone)]
enum Change {
    Image(u8),
    Env(u8),
    Replicas(i32),
    Reuse(bool),
    DeleteByHand(usize),
    Fail(usize),
    Ask(usize),
    EndDeleted,
    Kubelets,
    Crash(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => (0u8..3).prop_map(Change::Image),
        2 => (0u8..2).prop_map(Change::Env),
        3 => (0i32..5).prop_map(Change::Replicas),
        1 => any::<bool>().prop_map(Change::Reuse),
        2 => (0usize..5).prop_map(Change::DeleteByHand),
        1 => (0usize..5).prop_map(Change::Fail),
        1 => (0usize..5).prop_map(Change::Ask),
        3 => Just(Change::EndDeleted),
        3 => Just(Change::Kubelets),
        4 => (0usize..12).prop_map(Change::Crash),
    ]
}

fn apply(world: &mut World, change: &Change) {
    let edit = |world: &mut World, at: usize, edit: fn(&mut Value)| {
        if let Some(name) = name_of(world, at) {
            edit(world.pods.get_mut(&name).unwrap());
        }
    };
    match change {
        Change::Image(n) => {
            world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(format!("web:{n}")))
        }
        Change::Env(n) => {
            world.edit_template(|t| {
                t["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": n.to_string()}])
            });
        }
        Change::Replicas(n) => scale(world, *n),
        Change::Reuse(reuse) => {
            Arc::make_mut(&mut world.set)
                .spec
                .scale_strategy
                .enable_pvc_reuse = *reuse
        }
        Change::DeleteByHand(at) => delete_by_hand(world, *at),
        Change::Fail(at) => edit(world, *at, |pod| pod["status"]["phase"] = json!("Failed")),
        Change::Ask(at) => {
            edit(world, *at, |pod| {
                pod["metadata"]["labels"]["apps.kruise.io/specified-delete"] = json!("true")
            });
        }
        Change::EndDeleted => end_deleted(world),
        Change::Kubelets => world.run_kubelets(),
        Change::Crash(_) => {}
    }
}

/// Every pod that may run has all its claims, and no such claim is being deleted.
fn has_its_claims(world: &World) -> Result<(), TestCaseError> {
    let sound: BTreeSet<_> = world
        .claims
        .seen()
        .iter()
        .filter(|c| !c.is_going())
        .map(|c| c.metadata.name.to_string())
        .collect();
    for pod in world
        .pods
        .values()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    {
        for volume in pod["spec"]["volumes"].as_array().unwrap() {
            let claim = volume["persistentVolumeClaim"]["claimName"]
                .as_str()
                .unwrap();
            prop_assert!(
                sound.contains(claim),
                "{} lacks {claim}",
                pod["metadata"]["name"]
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// In every order of steps, and at whichever write the controller dies: a pod has its claims as
    /// long as it lives, and in the end only claims of pods and claims that wait for a pod exist.
    #[test]
    fn no_claim_is_lost_and_none_is_left_behind(
        changes in prop::collection::vec(change(), 1..40),
        policy in prop_oneof![Just("InPlaceIfPossible"), Just("ReCreate")],
        reuse in any::<bool>(),
    ) {
        let mut world = world(3, policy, reuse);
        for change in &changes {
            apply(&mut world, change);
            match change {
                Change::Crash(writes) => {
                    let plan = world.plan();
                    world.execute(&plan, *writes);
                }
                _ => drop(world.step()),
            }
            has_its_claims(&world)?;
        }
        let reuse = world.set.spec.scale_strategy.enable_pvc_reuse;
        // A claim that waits for a pod gets one.
        let ids: BTreeSet<_> = world.claims.seen().iter().map(|c| super::instance(&c.metadata).to_owned()).collect();
        let replicas = i32::try_from(ids.len()).unwrap() + 1;
        if reuse {
            scale(&mut world, replicas);
        }
        for _ in 0..3 {
            end_deleted(&mut world);
            world.settle();
        }
        let running = |id: &str| world.pods.contains_key(&format!("web-{id}"));
        for claim in world.claims.seen() {
            let id = super::instance(&claim.metadata);
            prop_assert!(running(id), "claim {} is left behind", claim.metadata.name);
        }
        let status = world.status();
        prop_assert_eq!(status.available_replicas, world.set.spec.replicas.unwrap());
    }

    /// While no user deletes a pod and the controller dies at no write, claims are created for new
    /// pods alone.
    #[test]
    fn claims_are_made_for_new_pods_alone(replicas in prop::collection::vec(0i32..6, 1..8), reuse in any::<bool>()) {
        let mut world = world(1, "ReCreate", reuse);
        let (mut have, mut made) = (1, 2);
        for replicas in replicas {
            scale(&mut world, replicas);
            world.settle();
            made += 2 * u64::try_from((replicas - have).max(0)).unwrap();
            have = replicas;
            prop_assert_eq!(world.claims.made(), made);
            prop_assert_eq!(world.claims.seen().len(), 2 * usize::try_from(replicas).unwrap());
        }
    }
}
