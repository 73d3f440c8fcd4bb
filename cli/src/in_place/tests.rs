use berth_workload::objects::resource::{CLONE_SETS, NODE_IMAGES, STATEFUL_SETS};
use serde_json::json;

use super::*;

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{
            "name": "app", "image": "web:1",
            "resources": {"requests": {"cpu": "100m"}},
            "env": [{"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}],
        }]},
    })
}

fn object(policy: Value) -> Value {
    json!({"spec": {"template": template(), "updateStrategy": {"rollingUpdate": policy}}})
}

fn changed(object: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = object.clone();
    *changed.pointer_mut(pointer).unwrap() = value;
    changed
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";
const CPU: &str = "/spec/template/spec/containers/0/resources/requests/cpu";
const ENV: &str = "/spec/template/spec/containers/0/env";
const LABEL: &str = "/spec/template/metadata/labels/app";

#[test]
fn way_follows_policy_and_changed_fields() {
    let policy = |name: &str| json!({"podUpdatePolicy": name});
    let cases = [
        ("InPlaceIfPossible", IMAGE, json!("web:1"), "no pod changes"),
        ("ReCreate", IMAGE, json!("web:1"), "no pod changes"),
        (
            "InPlaceIfPossible",
            IMAGE,
            json!("web:2"),
            "in place: the pods stay, with their nodes and addresses; container app restarts",
        ),
        (
            "ReCreate",
            IMAGE,
            json!("web:2"),
            "by new pods: podUpdatePolicy is ReCreate; with InPlaceIfPossible it goes in place",
        ),
        (
            "InPlaceIfPossible",
            ENV,
            json!([]),
            "by new pods: spec.template.spec.containers[app].env cannot change in a running pod",
        ),
        (
            "InPlaceOnly",
            ENV,
            json!([]),
            "not at all: spec.template.spec.containers[app].env cannot change in a running pod, and podUpdatePolicy \
             is InPlaceOnly; take the change back, or set podUpdatePolicy to InPlaceIfPossible",
        ),
        (
            "InPlaceIfPossible",
            LABEL,
            json!("other"),
            "in place: the pods stay, with their nodes and addresses; container app restarts",
        ),
        (
            "InPlaceIfPossible",
            CPU,
            json!("200m"),
            "by new pods: spec.template.spec.containers[app].resources cannot change in a running pod, because feature \
             gate InPlaceWorkloadVerticalScaling is off",
        ),
    ];
    for (name, pointer, value, expected) in cases {
        let old = object(policy(name));
        let new = changed(&old, pointer, value);
        for resource in [CLONE_SETS, STATEFUL_SETS] {
            let way = way(resource, &old, &new, &Cluster::default()).unwrap();
            assert_eq!(way.to_string(), expected, "{name} {pointer}");
        }
    }
}

#[test]
fn resources_change_in_place_with_the_gate() {
    let old = object(json!({"podUpdatePolicy": "InPlaceIfPossible"}));
    let new = changed(&old, CPU, json!("200m"));
    let cluster = Cluster {
        resize: Ability::On,
        ..Cluster::default()
    };
    assert_eq!(
        way(CLONE_SETS, &old, &new, &cluster).unwrap(),
        Way::Resize(BTreeSet::new())
    );
}

#[test]
fn daemonset_uses_its_own_field() {
    let old = object(json!({"rollingUpdateType": "InPlaceIfPossible"}));
    let new = changed(&old, IMAGE, json!("web:2"));
    let app = BTreeSet::from(["app".to_owned()]);
    let of = |resource| way(resource, &old, &new, &Cluster::default()).unwrap();
    assert_eq!(of(DAEMON_SETS), Way::InPlace(app));
    assert!(matches!(of(CLONE_SETS), Way::Recreate(_)));
}

#[test]
fn pods_stay_with_on_delete_and_in_jobs() {
    let mut old = object(json!({"podUpdatePolicy": "InPlaceIfPossible"}));
    let job = changed(&old, IMAGE, json!("web:2"));
    let cluster = Cluster::default();
    let of_job = way(BROADCAST_JOBS, &old, &job, &cluster).unwrap();
    assert!(matches!(of_job, Way::Later(_)));
    old["spec"]["updateStrategy"]["type"] = json!("OnDelete");
    let new = changed(&old, IMAGE, json!("web:2"));
    assert_eq!(
        way(CLONE_SETS, &old, &new, &cluster).unwrap().to_string(),
        "later: a pod gets the change when it is deleted, because spec.updateStrategy.type is OnDelete"
    );
}

#[test]
fn united_deployment_follows_its_subsets_kind() {
    let of = |field: &str, image: &str| {
        let mut workload = object(json!({"podUpdatePolicy": "InPlaceIfPossible"}));
        workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        json!({"spec": {"template": {field: workload}}})
    };
    for (field, expected) in [
        ("cloneSetTemplate", "in place"),
        ("advancedStatefulSetTemplate", "in place"),
        (
            "deploymentTemplate",
            "by new pods: its subsets are Deployments of Kubernetes",
        ),
        ("statefulSetTemplate", "by new pods"),
    ] {
        let (old, new) = (of(field, "web:1"), of(field, "web:2"));
        let way = way(UNITED_DEPLOYMENTS, &old, &new, &Cluster::default()).unwrap();
        assert!(way.to_string().starts_with(expected), "{field}: {way}");
    }
}

#[test]
fn sidecars_change_in_place_by_image_only() {
    let set = |image: &str, env: Value, type_: &str| {
        json!({"spec": {
            "containers": [
                {"name": "log", "image": image, "env": env},
                {"name": "other", "image": "o:1"},
                {"name": "hot", "image": image, "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"}},
            ],
            "updateStrategy": {"type": type_},
        }})
    };
    let old = set("log:1", json!([]), "RollingUpdate");
    let of = |new: Value| way(SIDECAR_SETS, &old, &new, &Cluster::default()).unwrap();
    assert_eq!(of(old.clone()), Way::Nothing);
    assert_eq!(
        of(set("log:2", json!([]), "RollingUpdate")),
        Way::InPlace(["hot-1", "hot-2", "log"].map(str::to_owned).into())
    );
    let env = json!([{"name": "A", "value": "b"}]);
    assert!(matches!(
        of(set("log:2", env, "RollingUpdate")),
        Way::Later(_)
    ));
    assert!(matches!(
        of(set("log:2", json!([]), "NotUpdate")),
        Way::Later(_)
    ));
}

#[test]
fn kind_without_pods_is_refused() {
    assert!(way(NODE_IMAGES, &json!({}), &json!({}), &Cluster::default()).is_err());
}
