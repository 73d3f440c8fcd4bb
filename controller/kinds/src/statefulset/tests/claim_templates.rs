//! Claim templates that are added and removed while the pods exist.

use serde_json::{Value, json};

use super::super::simulation::{World, written};

fn template(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}})
}

/// A set whose pods have a claim each, with one more template since.
fn with_one_more(replicas: i32, rolling: &Value, fields: &Value) -> World {
    let mut world = World::new(
        replicas,
        json!({"volumeClaimTemplates": [template("data")]}),
    );
    world.merge(&json!({"updateStrategy": {"rollingUpdate": rolling}}));
    world.merge(fields);
    world.settle();
    add_template(&mut world);
    world
}

fn add_template(world: &mut World) {
    world.merge(&json!({"volumeClaimTemplates": [template("data"), template("log")]}));
}

/// Which volumes of each pod are claims.
fn mounted(world: &World) -> Vec<String> {
    world
        .all_pods()
        .iter()
        .map(|pod| pod.spec.claim_volumes.join(" "))
        .collect()
}

fn uids(world: &World) -> Vec<String> {
    world.pods.keys().map(|name| world.uid(name)).collect()
}

#[test]
fn new_claim_template_replaces_pods_one_by_one() {
    for policy in ["ReCreate", "InPlaceIfPossible"] {
        let mut world = with_one_more(3, &json!({"podUpdatePolicy": policy}), &json!({}));
        let revision = world.status().update_revision;
        let plan = world.plan();
        assert_eq!(written(&plan), ["DeletePod db-2"], "{policy}");
        let reason = &plan.stages.last().unwrap().steps[0].reason;
        assert!(
            reason.contains("no volume of claim template log"),
            "{reason}"
        );
        let status = world.status();
        assert_eq!(
            (
                status.replicas,
                status.updated_replicas,
                status.updated_ready_replicas
            ),
            (3, 0, 0),
            "{policy}"
        );
        assert_eq!(
            (status.updated_available_replicas, status.current_replicas),
            (0, 3),
            "{policy}"
        );
        for _ in 0..50 {
            world.step();
            assert!(world.available() >= 2, "{policy}");
            world.run_kubelets();
            world.pass(1);
        }
        world.settle();
        let expected = ["data log", "data log", "data log"];
        assert_eq!(mounted(&world), expected, "{policy}");
        let claims: Vec<_> = world.claims.stored().keys().cloned().collect();
        assert_eq!(
            claims,
            [
                "data-db-0",
                "data-db-1",
                "data-db-2",
                "log-db-0",
                "log-db-1",
                "log-db-2"
            ]
        );
        let status = world.status();
        assert_eq!(
            (status.updated_replicas, status.update_revision),
            (3, revision),
            "{policy}"
        );
    }
}

#[test]
fn new_claim_template_respects_update_strategy() {
    let paused = json!({"paused": true});
    let on_delete = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}});
    let parallel = json!({"podManagementPolicy": "Parallel"});
    let unordered = json!({"partition": 1, "unorderedUpdate": {}, "maxUnavailable": 9});
    for (rolling, fields, expected) in [
        (paused, json!({}), vec![]),
        (json!({}), on_delete, vec![]),
        (json!({"partition": 3}), json!({}), vec![]),
        (
            json!({"partition": 2}),
            parallel.clone(),
            vec!["DeletePod db-2"],
        ),
        (
            json!({"maxUnavailable": 2}),
            parallel.clone(),
            vec!["DeletePod db-2", "DeletePod db-1"],
        ),
        (
            unordered,
            parallel,
            vec!["DeletePod db-2", "DeletePod db-1"],
        ),
    ] {
        let world = with_one_more(3, &rolling, &fields);
        assert_eq!(written(&world.plan()), expected, "{rolling} {fields}");
    }
}

#[test]
fn on_delete_pod_gets_new_volume_after_deletion() {
    let on_delete = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}});
    let mut world = with_one_more(2, &json!({}), &on_delete);
    world.delete("db-0");
    world.settle();
    assert_eq!(mounted(&world), ["data log", "data"]);
    assert_eq!(world.status().updated_replicas, 1);
}

#[test]
fn update_recreates_pod_without_the_volume() {
    let policy = json!({"podUpdatePolicy": "InPlaceIfPossible"});
    let mut world = with_one_more(2, &policy, &json!({}));
    let before = uids(&world);
    world.set_image("db:1");
    world.settle();
    assert!(uids(&world).iter().all(|uid| !before.contains(uid)));
    assert_eq!(
        (mounted(&world)[0].as_str(), world.images()[0].as_str()),
        ("data log", "db-0 1")
    );
    // Now that each has its volume, they are updated in place again.
    let before = uids(&world);
    world.set_image("db:2");
    world.settle();
    assert_eq!(
        (uids(&world), world.images()),
        (before, vec!["db-0 2".to_owned(), "db-1 2".to_owned()])
    );
}

#[test]
fn new_claim_template_recreates_pod_under_update() {
    let policy = json!({"podUpdatePolicy": "InPlaceIfPossible"});
    let mut world = World::settled(2, json!({"updateStrategy": {"rollingUpdate": policy}}));
    world.set_image("db:1");
    world.step();
    world.step();
    assert_eq!(world.available(), 1, "db-1 is out of service");
    add_template(&mut world);
    assert_eq!(written(&world.step()), ["DeletePod db-1"]);
    world.settle();
    assert_eq!(mounted(&world), ["data log", "data log"]);
}

#[test]
fn in_place_only_reports_missing_volume() {
    let mut world = with_one_more(2, &json!({"podUpdatePolicy": "InPlaceOnly"}), &json!({}));
    let before = uids(&world);
    world.settle();
    assert_eq!(uids(&world), before);
    let blocked = world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert_eq!(blocked.reason, "InPlaceOnly");
    for words in [
        "pod db-",
        "spec.volumeClaimTemplates[log]",
        "take the claim template back",
    ] {
        assert!(blocked.message.contains(words), "{}", blocked.message);
    }
}

#[test]
fn a_template_that_was_taken_away_replaces_nothing() {
    let mut world = with_one_more(2, &json!({}), &json!({}));
    world.settle();
    world.merge(&json!({"volumeClaimTemplates": [template("log")]}));
    assert!(world.plan().is_idle());
    assert_eq!(world.status().updated_replicas, 2);
}

#[test]
fn claim_renamed_by_a_webhook_counts_for_its_template() {
    let mut world = World::new(2, json!({"volumeClaimTemplates": [template("data")]}));
    for _ in 0..2 {
        world.step();
    }
    world.pods.get_mut("db-0").unwrap()["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] =
        json!("other");
    let before = world.uid("db-0");
    world.settle();
    assert_eq!(
        (world.uid("db-0"), world.status().updated_replicas),
        (before, 2)
    );
}

#[test]
fn adopted_pods_have_the_volumes_of_their_claims() {
    let mut world = World::settled(2, json!({"volumeClaimTemplates": [template("data")]}));
    let before = uids(&world);
    for pod in world.pods.values_mut() {
        pod["metadata"]["ownerReferences"] = json!([]);
    }
    world.settle();
    assert_eq!((uids(&world), world.status().updated_replicas), (before, 2));
}
