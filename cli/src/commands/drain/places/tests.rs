use super::*;

fn node(name: &str, spec: Value) -> Node {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "disk": "ssd"}},
        "spec": spec,
    });
    serde_json::from_value(node).unwrap()
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "a", "namespace": "d"}, "spec": spec});
    pod["spec"]["nodeName"] = json!("n1");
    pod
}

fn affinity(key: &str, values: &Value) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]})
}

#[test]
fn pinned_pods_have_no_other_node() {
    let taint = || json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]});
    let open = || vec![node("n1", json!({})), node("n2", json!({}))];
    let closed = |spec| vec![node("n1", json!({})), node("n2", spec)];
    let host = "kubernetes.io/hostname";
    let required = |of: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": of}}});
    let claimed =
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "local"}}]});
    let remote =
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "remote"}}]});
    let tolerant = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
    let cases = [
        (json!({}), open(), None),
        (json!({}), Vec::new(), None),
        (
            json!({}),
            vec![node("n1", json!({}))],
            Some("the cluster has no other node"),
        ),
        (json!({"nodeSelector": {"disk": "ssd"}}), open(), None),
        (
            json!({"nodeSelector": {host: "n1"}}),
            open(),
            Some("no other node matches its nodeSelector kubernetes.io/hostname=n1"),
        ),
        (
            required(affinity(host, &json!(["n1"]))),
            open(),
            Some("no other node matches its required node affinity"),
        ),
        (required(affinity(host, &json!(["n1", "n2"]))), open(), None),
        (
            claimed,
            open(),
            Some("no other node reaches its PersistentVolume pv-1"),
        ),
        (remote, open(), None),
        (
            json!({}),
            closed(json!({"unschedulable": true})),
            Some("no other node accepts it: n2 is cordoned"),
        ),
        (
            json!({}),
            closed(taint()),
            Some("no other node accepts it: n2 has taint gpu:NoSchedule"),
        ),
        (tolerant, closed(taint()), None),
    ];
    let claim = |claim: &str, volume: &str| json!({"metadata": {"name": claim, "namespace": "d"}, "spec": {"volumeName": volume}});
    for (spec, nodes, expected) in cases {
        let places = Places {
            nodes,
            claims: vec![claim("local", "pv-1"), claim("remote", "pv-2")],
            daemons: Vec::new(),
            volumes: vec![
                json!({"metadata": {"name": "pv-1"}, "spec": {"nodeAffinity": {"required": affinity(host, &json!(["n1"]))}}}),
                json!({"metadata": {"name": "pv-2"}, "spec": {}}),
            ],
        };
        let found = places.pending(&pod(spec.clone()));
        assert_eq!(found.as_deref(), expected, "{spec}");
    }
}

#[test]
fn pods_are_all_pending_if_each_is() {
    let pinned = |name: &str| {
        let mut pod = pod(json!({"nodeSelector": {"kubernetes.io/hostname": name}}));
        pod["spec"]["nodeName"] = json!(name);
        pod
    };
    let (one, other) = (pinned("n1"), pod(json!({})));
    let places = Places {
        nodes: vec![node("n1", json!({})), node("n2", json!({}))],
        ..Places::default()
    };
    let cases = [
        (vec![], false),
        (vec![&one], true),
        (vec![&one, &one], true),
        (vec![&one, &other], false),
    ];
    for (pods, is_pending) in cases {
        assert_eq!(places.all_pending(&pods).is_some(), is_pending);
    }
}
