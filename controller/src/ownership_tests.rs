//! Any user can read a uid. A tenant gains nothing from it.

use std::sync::Arc;

use berth_runtime::Object;
use berth_runtime::store::event::Odd;
use berth_workload::feature_gates::Gates;
use berth_workload::update::inplace::resize::Ability;
use serde_json::{Value, json};

use crate::controllers::cloneset::CloneSetController;
use crate::controllers::nodeimage::{self, managed_pods};
use crate::controllers::pod_owner::observe;
use crate::reconcile::controller::Controller;
use crate::stores::reads::Stores;
use crate::stores::watched::Watched;

const GENUINE: &str = "apps.kruise.io/v1beta1 CloneSet";

/// An object whose owner reference names the uid of the victim's CloneSet.
fn object(namespace: &str, name: &str, owner: &str) -> Value {
    let (api_version, kind) = owner.split_once(' ').unwrap();
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u-web", "controller": true});
    json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": format!("u-{namespace}-{name}"), "resourceVersion": "1",
            "labels": {"app": "web", "apps.kruise.io/cloneset-instance-id": name}, "ownerReferences": [owner],
        },
    })
}

fn read<T: Object>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn pod(namespace: &str, name: &str, owner: &str) -> Value {
    let mut pod = object(namespace, name, owner);
    pod["spec"] = json!({"nodeName": "n1", "containers": []});
    pod
}

fn job(namespace: &str, name: &str, owner: &str) -> Value {
    let mut job = object(namespace, name, owner);
    job["spec"] = json!({"image": "x:1", "completionPolicy": {"type": "Always"}});
    job
}

/// In the victim's namespace one genuine object of each kind and one with a foreign kind of owner;
/// the same objects in another namespace.
fn stores() -> (CloneSetController, nodeimage::NodeImageController) {
    let mut all = Stores::default();
    let stores = CloneSetController::new(&mut all.reader());
    let set = json!({
        "metadata": {"namespace": "victim", "name": "web", "uid": "u-web", "resourceVersion": "1"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {}},
    });
    stores.sets.apply(read(set));
    let places = [
        ("victim", "genuine", GENUINE),
        ("victim", "foreign-kind", "none.example/v1 Nothing"),
        ("attacker", "forged", GENUINE),
        ("attacker", "forged-kind", "none.example/v1 Nothing"),
    ];
    for (namespace, name, owner) in places {
        stores.of_pods.pods.apply(read(pod(namespace, name, owner)));
        stores
            .of_pods
            .revisions
            .apply(read(object(namespace, name, owner)));
        stores
            .of_pods
            .claims
            .apply(read(object(namespace, name, owner)));
        stores.of_pods.jobs.apply(read(job(namespace, name, owner)));
    }
    let of_nodes = nodeimage::NodeImageController::new(&mut all.reader());
    (stores, of_nodes)
}

#[test]
fn foreign_objects_with_owner_uid_are_not_observed() {
    let (stores, _) = stores();
    let set = stores.sets.get("victim", "web").unwrap();
    let seen = observe(&stores, &set, Gates::default(), Ability::Off, true);
    let names = |names: Vec<&str>| assert_eq!(names, ["genuine"]);
    names(
        seen.pods
            .iter()
            .chain(&seen.strays)
            .map(|pod| &*pod.metadata.name)
            .collect(),
    );
    names(
        seen.revisions
            .iter()
            .map(|revision| &*revision.metadata.name)
            .collect(),
    );
    names(
        seen.own
            .claims
            .iter()
            .map(|claim| &*claim.metadata.name)
            .collect(),
    );
    names(
        seen.jobs
            .iter()
            .flatten()
            .map(|job| job.metadata.name.as_deref().unwrap())
            .collect(),
    );
}

#[test]
fn foreign_claims_with_pod_uid_are_not_observed() {
    let (stores, _) = stores();
    let set = stores.sets.get("victim", "web").unwrap();
    for namespace in ["victim", "attacker"] {
        let mut claim = object(namespace, "taken-along", GENUINE);
        let uid = "u-victim-genuine";
        claim["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "genuine", "uid": uid}]);
        stores.of_pods.claims.apply(read(claim));
    }
    let claims = observe(&stores, &set, Gates::default(), Ability::Off, true)
        .own
        .claims;
    let mut places: Vec<_> = claims
        .iter()
        .map(|claim| (&*claim.metadata.namespace, &*claim.metadata.name))
        .collect();
    places.sort_unstable();
    assert_eq!(places, [("victim", "genuine"), ("victim", "taken-along")]);
}

#[test]
fn node_inspects_only_pods_of_stored_clone_sets() {
    let (stores, of_nodes) = stores();
    stores
        .of_pods
        .pods
        .apply(read(pod("attacker", "bare", "v1 Nothing")));
    let names = || -> Vec<_> {
        managed_pods(&of_nodes, "n1")
            .iter()
            .map(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone()))
            .collect()
    };
    assert_eq!(names(), [("victim".into(), "genuine".into())]);
    // A CloneSet with the name that the attacker's pods claim, but with a uid of its own.
    let mut set = (*stores.sets.get("victim", "web").unwrap().0).clone();
    set.metadata.namespace = Some("attacker".to_owned());
    set.metadata.uid = Some("u-attacker".to_owned());
    stores.sets.apply(Watched(Arc::new(set)));
    assert_eq!(names(), [("victim".into(), "genuine".into())]);
    stores.sets.remove("victim", "web", None);
    assert!(names().is_empty(), "nor about pods of one that is gone");
}

#[test]
fn unreadable_object_blocks_only_its_owner() {
    let (stores, _) = stores();
    let set = stores.sets.get("victim", "web").unwrap();
    let seen = || observe(&stores, &set, Gates::default(), Ability::Off, true);
    let odd = |namespace: &str, name: &str, owner: &str| -> Odd {
        let owners = object(namespace, name, owner)["metadata"]["ownerReferences"].clone();
        Odd {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("u-{namespace}-{name}"),
            version: "2".to_owned(),
            owners: serde_json::from_value(owners).unwrap(),
            error: "odd".to_owned(),
            ..Odd::default()
        }
    };
    stores
        .of_pods
        .pods
        .apply_unreadable(odd("attacker", "forged", GENUINE));
    stores
        .of_pods
        .pods
        .apply_unreadable(odd("victim", "foreign-kind", "none.example/v1 Nothing"));
    assert!(seen().unreadable.is_empty());
    stores
        .of_pods
        .pods
        .apply_unreadable(odd("victim", "genuine", GENUINE));
    stores
        .of_pods
        .pods
        .apply_unreadable(odd("victim", "never-read", GENUINE));
    stores
        .of_pods
        .revisions
        .apply_unreadable(odd("victim", "revision", GENUINE));
    stores
        .of_pods
        .claims
        .apply_unreadable(odd("victim", "claim", GENUINE));
    let names: Vec<_> = seen()
        .unreadable
        .iter()
        .map(|it| (it.kind, it.name.clone()))
        .collect();
    let expected = [
        ("Pod", "genuine"),
        ("Pod", "never-read"),
        ("ControllerRevision", "revision"),
        ("PersistentVolumeClaim", "claim"),
    ];
    assert_eq!(names, expected.map(|(kind, name)| (kind, name.to_owned())));
    assert_eq!(seen().pods.len(), 1, "as it was last read");
}
