use super::*;

#[test]
fn a_sidecarset_is_judged_as_the_pod_that_has_its_containers() {
    let object = json!({"spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "initContainers": [{"name": "native", "image": "n", "restartPolicy": "Always", "podInjectPolicy": "BeforeAppContainer"}],
        "containers": [
            {"name": "mesh", "upgradeStrategy": {"upgradeType": "HotUpgrade"}, "volumeMounts": [{"name": "own"}, {"name": "pods"}]},
            {"name": "log", "image": "l", "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "files"}}}], "transferEnv": [], "resourcesPolicy": {}, "upgradeStrategy": {"upgradeType": "ColdUpgrade"}},
        ],
        "volumes": [{"name": "own", "hostPath": {"path": "/a"}}],
    }});
    let template = of(&object);
    let spec = &template["spec"];
    assert_eq!(
        spec["initContainers"],
        json!([{"name": "native", "image": "n", "restartPolicy": "Always"}])
    );
    let mesh = json!({"name": "mesh-1", "volumeMounts": [{"name": "own"}, {"name": "pods"}]});
    let log = json!({"name": "log", "image": "l", "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "files"}}}]});
    assert_eq!(spec["containers"], json!([mesh, log]));
    let of_pods = ["files", "pods"].map(|name| json!({"name": name, "emptyDir": {}}));
    let volumes = json!([{"name": "own", "hostPath": {"path": "/a"}}, of_pods[0], of_pods[1]]);
    assert_eq!(spec["volumes"], volumes);
}

#[test]
fn init_only_sidecar_set_gets_a_pod_container() {
    let template = of(&json!({"spec": {"initContainers": [{"name": "a", "image": "b"}]}}));
    assert_eq!(template["spec"]["containers"].as_array().unwrap().len(), 1);
}
