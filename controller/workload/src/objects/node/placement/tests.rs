use super::*;

fn node(labels: Value, taints: Value) -> Node {
    let node = json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}});
    serde_json::from_value(node).unwrap()
}

fn taint(key: &str, effect: &str) -> Value {
    json!([{"key": key, "value": "v", "effect": effect}])
}

#[test]
fn a_node_fits_by_name_and_labels() {
    let n1 = node(json!({"zone": "a", "size": "7"}), json!(null));
    let term = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let field = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    for (spec, expected) in [
        (json!({}), Fit::Wanted),
        (json!({"nodeName": "n1"}), Fit::Wanted),
        (json!({"nodeName": "n2"}), Fit::Unwanted),
        (json!({"nodeSelector": {"zone": "a"}}), Fit::Wanted),
        (
            json!({"nodeSelector": {"zone": "a", "x": ""}}),
            Fit::Unwanted,
        ),
        (required(json!([])), Fit::Unwanted),
        (required(json!([{}])), Fit::Unwanted),
        (
            required(json!([
                term("zone", "In", json!(["b"])),
                term("zone", "In", json!(["a"]))
            ])),
            Fit::Wanted,
        ),
        (
            required(json!([term("zone", "NotIn", json!(["a"]))])),
            Fit::Unwanted,
        ),
        (
            required(json!([term("gone", "NotIn", json!(["a"]))])),
            Fit::Wanted,
        ),
        (
            required(json!([term("zone", "DoesNotExist", json!([]))])),
            Fit::Unwanted,
        ),
        (
            required(json!([term("size", "Gt", json!(["6"]))])),
            Fit::Wanted,
        ),
        (
            required(json!([term("size", "Lt", json!(["7"]))])),
            Fit::Unwanted,
        ),
        (
            required(json!([term("zone", "Gt", json!(["6"]))])),
            Fit::Unwanted,
        ),
        (required(json!([field("n1")])), Fit::Wanted),
        (required(json!([field("n2")])), Fit::Unwanted),
    ] {
        assert_eq!(
            Placement::of(&json!({"spec": spec})).fit(&n1),
            expected,
            "{spec}"
        );
    }
}

#[test]
fn untolerated_taint_keeps_out_or_removes_pods() {
    let tolerate = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let none = json!({"spec": {}});
    let (schedule, execute) = (taint("k", "NoSchedule"), taint("k", "NoExecute"));
    for (template, taints, expected) in [
        (&none, &schedule, Fit::MayStay),
        (&none, &execute, Fit::Unwanted),
        (&none, &taint("k", "PreferNoSchedule"), Fit::Wanted),
        (
            &tolerate(json!({"operator": "Exists"})),
            &execute,
            Fit::Wanted,
        ),
        (
            &tolerate(json!({"key": "k", "value": "v"})),
            &execute,
            Fit::Wanted,
        ),
        (
            &tolerate(json!({"key": "k", "value": "w"})),
            &execute,
            Fit::Unwanted,
        ),
        (
            &tolerate(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
            &execute,
            Fit::Unwanted,
        ),
        (
            &tolerate(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
            &schedule,
            Fit::Wanted,
        ),
    ] {
        let node = node(json!({}), taints.clone());
        assert_eq!(
            Placement::of(template).fit(&node),
            expected,
            "{template} {taints}"
        );
    }
}

#[test]
fn fits_once_started_ignores_startup_taints() {
    let zone = || json!({"zone": "a"});
    for (spec, key, effect, expected) in [
        (
            json!({}),
            "apps.kruise.io/images-not-ready",
            "NoSchedule",
            true,
        ),
        (
            json!({}),
            "startup-taint.cluster-autoscaler.kubernetes.io/images-not-ready",
            "NoExecute",
            true,
        ),
        (
            json!({}),
            "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
            "NoSchedule",
            true,
        ),
        (
            json!({}),
            "node.kubernetes.io/not-ready",
            "NoSchedule",
            true,
        ),
        (
            json!({}),
            "node.kubernetes.io/unschedulable",
            "NoSchedule",
            true,
        ),
        (json!({}), "dedicated", "NoSchedule", false),
        (json!({}), "dedicated", "NoExecute", false),
        (json!({}), "dedicated", "PreferNoSchedule", true),
        (
            json!({"tolerations": [{"key": "dedicated", "value": "v"}]}),
            "dedicated",
            "NoSchedule",
            true,
        ),
        (
            json!({"nodeSelector": {"zone": "b"}}),
            "apps.kruise.io/images-not-ready",
            "NoSchedule",
            false,
        ),
    ] {
        let fits = Placement::of(&json!({"spec": spec}))
            .fits_once_started(&node(zone(), taint(key, effect)));
        assert_eq!(fits, expected, "{spec} {key} {effect}");
    }
}

#[test]
fn daemons_stay_on_absent_and_run_on_cordoned_nodes() {
    let of = |spec: Value, key: &str, effect: &str| {
        Placement::of_daemons(&json!({"spec": spec})).fit(&node(json!({}), taint(key, effect)))
    };
    for (key, effect) in OF_DAEMONS {
        assert_eq!(of(json!({}), key, effect), Fit::Wanted, "{key}");
    }
    assert_eq!(
        of(json!({}), "node.kubernetes.io/not-ready", "NoSchedule"),
        Fit::MayStay
    );
    assert_eq!(
        of(json!({}), OF_HOST_NETWORK.0, OF_HOST_NETWORK.1),
        Fit::MayStay
    );
    assert_eq!(
        of(
            json!({"hostNetwork": true}),
            OF_HOST_NETWORK.0,
            OF_HOST_NETWORK.1
        ),
        Fit::Wanted
    );
}

#[test]
fn toleration_operator_decides_by_taint_value() {
    for (operator, value, taint, expected) in [
        ("", "950", "950", true),
        ("Equal", "950", "0950", false),
        ("Exists", "", "950", true),
        ("Gt", "950", "951", true),
        ("Gt", "950", "950", false),
        ("Lt", "950", "-1", true),
        ("Lt", "950", "950", false),
        ("Gt", "950", "many", false),
        ("Other", "950", "950", false),
    ] {
        let tolerations = json!([{"key": "sla", "operator": operator, "value": value}]);
        let placement = Placement::of(&json!({"spec": {"tolerations": tolerations}}));
        let node = node(
            json!({}),
            json!([{"key": "sla", "value": taint, "effect": "NoSchedule"}]),
        );
        let fit = if expected { Fit::Wanted } else { Fit::MayStay };
        assert_eq!(placement.fit(&node), fit, "{operator} {value} {taint}");
    }
}

#[test]
fn new_daemon_pod_tolerates_and_is_bound_to_its_node() {
    let mut pod = json!({"spec": {"tolerations": [{"key": "own"}], "affinity": {"podAffinity": {"x": 1}, "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}, "preferred": []}}}});
    tolerate_as_daemon(&mut pod);
    tolerate_as_daemon(&mut pod);
    pin_to_node(&mut pod, "n1");
    assert_eq!(
        pod["spec"]["tolerations"].as_array().unwrap().len(),
        1 + OF_DAEMONS.len()
    );
    let terms =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        terms["nodeSelectorTerms"][0]["matchFields"][0]["values"],
        json!(["n1"])
    );
    assert_eq!(terms["nodeSelectorTerms"][0].get("matchExpressions"), None);
    assert!(pod["spec"]["affinity"].get("podAffinity").is_some());
    let mut hostile = json!({"spec": {"tolerations": "x", "affinity": [1]}});
    tolerate_as_daemon(&mut hostile);
    pin_to_node(&mut hostile, "n1");
    assert_eq!(hostile["spec"]["tolerations"], "x");
}

/// Kubernetes' eviction goes by the shortest time that a pod tolerates a taint for.
#[test]
fn daemon_tolerates_absent_node_without_time_limit() {
    let one = |key: &str, operator: &str, effect: &str| json!({"key": key, "operator": operator, "effect": effect});
    let own = one("node.kubernetes.io/not-ready", "Exists", "NoExecute");
    let with = |mut one: Value, field: &str, value: Value| {
        one[field] = value;
        one
    };
    for (said, stays) in [
        (own.clone(), false),
        (with(own.clone(), "tolerationSeconds", json!(300)), false),
        (
            with(
                with(own.clone(), "value", json!("")),
                "tolerationSeconds",
                json!(0),
            ),
            false,
        ),
        (
            one("node.kubernetes.io/not-ready", "Exists", "NoSchedule"),
            true,
        ),
        (
            one("node.kubernetes.io/not-ready", "Equal", "NoExecute"),
            true,
        ),
        (with(own.clone(), "value", json!("v")), true),
        (
            with(
                one("mine", "Exists", "NoExecute"),
                "tolerationSeconds",
                json!(300),
            ),
            true,
        ),
        (json!("x"), true),
    ] {
        let mut pod = json!({"spec": {"tolerations": [said, said]}});
        tolerate_as_daemon(&mut pod);
        let made = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(made.iter().filter(|one| **one == own).count(), 1, "{said}");
        assert_eq!(
            made.len(),
            OF_DAEMONS.len() + if stays { 2 } else { 0 },
            "{said}"
        );
        let first = if stays { &said } else { &own };
        assert_eq!(made[0], *first, "in the same place");
    }
}
