use serde_json::json;

use super::*;

/// Ready pods, all alike but for their node; the first is the oldest.
fn pods(nodes: &[&str]) -> Vec<Arc<Pod>> {
    let pod = |(at, node): (usize, &&str)| {
        let name = ["a", "b", "c", "d", "e", "f", "g"][at];
        let pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:0{at}Z")},
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    nodes.iter().enumerate().map(pod).collect()
}

/// Nodes `n1` and `n2` in zone `z1`, `n3` in zone `z2`, `n4` without a zone.
fn spread(keys: &[&str]) -> Spread {
    let node = |(name, zone): (&str, &str)| {
        let mut labels = json!({"kubernetes.io/hostname": name});
        if !zone.is_empty() {
            labels["zone"] = json!(zone);
        }
        (
            name.into(),
            Arc::new(
                serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))
                    .unwrap(),
            ),
        )
    };
    let nodes = [("n1", "z1"), ("n2", "z1"), ("n3", "z2"), ("n4", "")]
        .map(node)
        .into();
    let constraints: Vec<_> = keys
        .iter()
        .map(|key| json!({"topologyKey": key, "maxSkew": 1}))
        .collect();
    let template = json!({"spec": {"topologySpreadConstraints": constraints}});
    Spread::new(&PodTemplate::from(&template), &nodes)
}

#[test]
fn deletion_begins_in_crowded_domains() {
    // Constraints; the pods' nodes; the order of deletion.
    let table: [(&[&str], &[&str], &str); 7] = [
        (&[], &["n1", "n1", "n2", "n1"], "dbca"),
        (
            &["kubernetes.io/hostname"],
            &["n1", "n1", "n2", "n1"],
            "dbca",
        ),
        // Three in zone z1, one in z2: two of z1 leave first, and then the zones are equal.
        (&["zone"], &["n1", "n2", "n1", "n3"], "cbda"),
        // Within a zone the doubled-up node gives first, even the older pod.
        (&["zone"], &["n1", "n1", "n2"], "bca"),
        // A node without the label is in no domain: its pods go last.
        (&["zone"], &["n4", "n3"], "ba"),
        (&["zone"], &["n3", "n4"], "ab"),
        // Both count: the zone first, as in either the pod is one of several.
        (
            &["zone", "kubernetes.io/hostname"],
            &["n1", "n1", "n3", "n2"],
            "bdca",
        ),
    ];
    for (keys, nodes, expected) in table {
        let mut pods = pods(nodes);
        for_deletion(&mut pods, &spread(keys), |_| true);
        let names: String = pods.iter().map(|pod| &*pod.metadata.name).collect();
        assert_eq!(names, expected, "{keys:?} on {nodes:?}");
    }
}

#[test]
fn a_template_without_constraints_needs_no_nodes() {
    let is = |template| is_constrained(&PodTemplate::from(&template));
    assert!(!is(json!({"spec": {"containers": []}})));
    assert!(is(
        json!({"spec": {"topologySpreadConstraints": [{"topologyKey": "zone"}]}})
    ));
}

#[test]
fn unscheduled_pods_count_for_no_domain() {
    let mut pods = pods(&["", "", "n1"]);
    for_deletion(&mut pods, &Spread::default(), |_| true);
    let names: String = pods.iter().map(|pod| &*pod.metadata.name).collect();
    assert_eq!(names, "bac", "the newer of those first");
}
