//! What is refused of the objects that a CRD lets pass.

use serde_json::json;

use super::*;
use crate::kinds::{new_violations, violations};

fn fields(object: Value) -> Vec<String> {
    violations(&object)
        .into_iter()
        .map(|violation| violation.field)
        .collect()
}

#[test]
fn boolean_annotation_takes_true_or_false_only() {
    for kind in ["CloneSet", "DaemonSet"] {
        for (value, sound) in [
            ("true", true),
            ("false", true),
            ("yes", false),
            ("True", false),
            ("", false),
        ] {
            let set =
                json!({"kind": kind, "metadata": {"annotations": {(PREPULL_ON_JOIN): value}}});
            let expected = format!("metadata.annotations[{PREPULL_ON_JOIN}]");
            assert_eq!(fields(set).contains(&expected), !sound, "{kind} {value:?}");
        }
    }
}

#[test]
fn claims_with_rolling_update_change_only_in_size() {
    let set = |strategy: &str, names: &[&str], class: &str, storage: &str| {
        let claim = |name: &&str| {
            let resources = json!({"requests": {"storage": storage}});
            json!({"metadata": {"name": name}, "spec": {"storageClassName": class, "resources": resources}})
        };
        let claims: Vec<_> = names.iter().map(claim).collect();
        json!({"kind": "StatefulSet", "spec": {
            "volumeClaimUpdateStrategy": {"type": strategy}, "volumeClaimTemplates": claims,
        }})
    };
    let old = set("OnPodRollingUpdate", &["a", "b"], "fast", "1Gi");
    for (new, expected) in [
        (
            set("OnPodRollingUpdate", &["b", "a"], "fast", "2Gi"),
            vec![],
        ),
        (set("OnDelete", &["a"], "slow", "1Gi"), vec![]),
        (
            set("OnPodRollingUpdate", &["a"], "fast", "1Gi"),
            vec!["spec.volumeClaimTemplates"],
        ),
        (
            set("OnPodRollingUpdate", &["a", "c"], "fast", "1Gi"),
            vec!["spec.volumeClaimTemplates"],
        ),
        (
            set("OnPodRollingUpdate", &["a", "b"], "slow", "1Gi"),
            vec![
                "spec.volumeClaimTemplates[0].spec.storageClassName",
                "spec.volumeClaimTemplates[1].spec.storageClassName",
            ],
        ),
    ] {
        let found: Vec<_> = new_violations(&new, Some(&old))
            .into_iter()
            .map(|found| found.field)
            .collect();
        assert_eq!(found, expected, "{new}");
    }
    assert!(new_violations(&old, None).is_empty());
    let old = set("OnDelete", &["a"], "fast", "1Gi");
    for new in [
        set("OnDelete", &["a", "b"], "fast", "1Gi"),
        set("OnDelete", &["b"], "slow", "2Gi"),
        set("OnPodRollingUpdate", &["a", "b"], "fast", "1Gi"),
    ] {
        assert_eq!(
            new_violations(&new, Some(&old)),
            [],
            "the pods get what they lack: {new}"
        );
    }
}

#[test]
fn sound_objects_have_no_faults() {
    let long = "a".repeat(63);
    let selector = json!({
        "matchLabels": {"app": "demo", "example.com/Tier_1.x": long, "empty": ""},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b", ""]}],
    });
    let order = json!({
        "priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": selector}], "orderPriority": [{"orderedKey": "a.b/c"}]},
        "scatterStrategy": [{"key": "a", "value": "b"}],
    });
    let cloneset = |update: Value| {
        json!({"kind": "CloneSet", "spec": {
            "selector": selector, "updateStrategy": update, "scaleStrategy": {"podsToDelete": ["demo-x1"]},
            "lifecycle": {"inPlaceUpdate": {"labelsHandler": {"example.com/in-use": "true"}}, "preDelete": {}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "data-2"}}],
        }})
    };
    assert_eq!(violations(&cloneset(order.clone())), []);
    assert_eq!(violations(&cloneset(json!({"rollingUpdate": order}))), []);
    let job = json!({"kind": "ImagePullJob", "spec": {"selector": {"names": ["node-1.example.com"]}, "podSelector": selector}});
    assert_eq!(violations(&job), []);
    assert_eq!(violations(&json!({"kind": "NodeImage", "spec": {}})), []);
    assert_eq!(violations(&json!(null)), []);
}

#[test]
fn every_fault_names_its_field() {
    let update = json!({
        "priorityStrategy": {
            "weightPriority": [{"matchSelector": {"matchLabels": {"ok": "-"}}}],
            "orderPriority": [{"orderedKey": "a/b/c"}],
        },
        "scatterStrategy": [{"key": "", "value": "ok"}],
    });
    let cloneset = json!({"kind": "CloneSet", "spec": {
        "selector": {"matchLabels": {"-app": "demo"}, "matchExpressions": [{"key": "A_/b", "values": ["ok", "not ok"]}]},
        "updateStrategy": {"rollingUpdate": update},
        "scaleStrategy": {"podsToDelete": ["ok", "Not"]},
        "lifecycle": {"preDelete": {"labelsHandler": {"in use": "true"}}, "preNormal": {"labelsHandler": {"ok": "not ok"}}},
        "volumeClaimTemplates": [{}, {"metadata": {"name": "data"}}, {"metadata": {"name": "data"}}, {"metadata": {"name": "a.b"}}],
    }});
    assert_eq!(
        fields(cloneset),
        [
            "spec.selector.matchLabels",
            "spec.selector.matchExpressions[0].key",
            "spec.selector.matchExpressions[0].values[1]",
            "spec.scaleStrategy.podsToDelete[1]",
            "spec.updateStrategy.rollingUpdate.priorityStrategy.weightPriority[0].matchSelector.matchLabels[ok]",
            "spec.updateStrategy.rollingUpdate.priorityStrategy.orderPriority[0].orderedKey",
            "spec.updateStrategy.rollingUpdate.scatterStrategy[0].key",
            "spec.lifecycle.preDelete.labelsHandler",
            "spec.lifecycle.preNormal.labelsHandler[ok]",
            "spec.volumeClaimTemplates[0].metadata.name",
            "spec.volumeClaimTemplates[2].metadata.name",
            "spec.volumeClaimTemplates[3].metadata.name",
        ]
    );
    let job = json!({"kind": "ImagePullJob", "spec": {
        "selector": {"names": ["node_1"], "matchLabels": {"a": "x".repeat(64)}}, "podSelector": {"matchLabels": {"a b": ""}}, "pullSecrets": [""],
    }});
    assert_eq!(
        fields(job),
        [
            "spec.selector.matchLabels[a]",
            "spec.podSelector.matchLabels",
            "spec.selector.names[0]",
            "spec.pullSecrets[0]"
        ]
    );
}

#[test]
fn min_ready_pods_percentage_depends_on_kind() {
    let key = "apps.kruise.io/image-predownload-min-updated-ready-pods";
    let takes = |kind: &str, value: &str| {
        let object = json!({"kind": kind, "metadata": {"annotations": {key: value}}});
        !fields(object).contains(&format!("metadata.annotations[{key}]"))
    };
    for (kind, percentage) in [
        ("DaemonSet", true),
        ("StatefulSet", true),
        ("CloneSet", false),
    ] {
        assert!(takes(kind, "0") && takes(kind, "3"), "{kind}");
        assert_eq!(takes(kind, "30%"), percentage, "{kind}");
        for bad in ["-1", "x", "x%", "%", ""] {
            assert!(!takes(kind, bad), "{kind} takes {bad:?}");
        }
    }
}

#[test]
fn faults_of_the_stored_object_may_stay() {
    let of = |value: &str| json!({"kind": "CloneSet", "spec": {"selector": {"matchLabels": {"a": value}}}});
    assert_eq!(new_violations(&of("a b"), Some(&of("a b"))), []);
    assert_eq!(new_violations(&of("a b"), Some(&of("c d"))).len(), 1);
    assert_eq!(new_violations(&of("a b"), None).len(), 1);
}

#[test]
fn fault_text_has_the_apiservers_form() {
    let cloneset =
        json!({"kind": "CloneSet", "spec": {"selector": {"matchLabels": {"app": "a b"}}}});
    let message = violations(&cloneset).first().unwrap().to_string();
    assert!(message.starts_with(
        "spec.selector.matchLabels[app]: Invalid value: \"a b\": is no label value: use at most 63"
    ));
}

#[test]
fn subset_nodes_and_taints_name_their_faults() {
    let subset = json!({"name": "a", "nodeSelectorTerm": {
        "matchExpressions": [
            {"key": "-", "operator": "Exists"}, {"key": "zone", "operator": "In"},
            {"key": "zone", "operator": "In", "values": ["b/c"]}, {"key": "zone", "operator": "Exists", "values": ["x"]},
            {"key": "cores", "operator": "Gt", "values": ["many"]}, {"key": "cores", "operator": "Gt", "values": ["4"]},
        ],
        "matchFields": [{"key": "spec.unschedulable", "operator": "Exists"}],
    }, "tolerations": [
        {"operator": "Exists"}, {"key": ""}, {"key": "a b"}, {"key": "a", "operator": "Exists", "value": "b"},
        {"key": "a", "effect": "Never"}, {"key": "a", "tolerationSeconds": 3},
    ]});
    let found =
        fields(json!({"kind": "UnitedDeployment", "spec": {"topology": {"subsets": [subset]}}}));
    let expected = [
        "nodeSelectorTerm.matchExpressions[0].key",
        "nodeSelectorTerm.matchExpressions[1].values",
        "nodeSelectorTerm.matchExpressions[2].values[0]",
        "nodeSelectorTerm.matchExpressions[3].values",
        "nodeSelectorTerm.matchExpressions[4].values",
        "nodeSelectorTerm.matchFields[0].key",
        "nodeSelectorTerm.matchFields[0].operator",
        "nodeSelectorTerm.matchFields[0].values",
        "tolerations[1].operator",
        "tolerations[2].key",
        "tolerations[3].value",
        "tolerations[4].effect",
        "tolerations[5].effect",
    ];
    assert_eq!(
        found,
        expected.map(|field| format!("spec.topology.subsets[0].{field}"))
    );
}

#[test]
fn patch_of_pod_labels_and_large_total_are_refused() {
    let of = |labels: Value, template: Value, count: usize| {
        let subset = json!({"name": "a", "patch": {"metadata": {"labels": labels}}});
        fields(json!({"kind": "UnitedDeployment", "spec": {
            "selector": {"matchLabels": {"app": "a"}}, "template": template, "topology": {"subsets": vec![subset; count]},
        }}))
    };
    let hidden = json!({
        "app": "b", "tier": "c", "apps.kruise.io/subset-name": "b", "apps.kruise.io/controller-revision-hash": "x",
    });
    let keys = [
        "app",
        "apps.kruise.io/controller-revision-hash",
        "apps.kruise.io/subset-name",
    ];
    let expected = keys.map(|key| format!("spec.topology.subsets[0].patch.metadata.labels[{key}]"));
    assert_eq!(of(hidden, json!({}), 1), expected);
    assert_eq!(of(json!({"app": "a", "tier": null}), json!({}), 1), [""; 0]);
    let large = json!({"deploymentTemplate": {"spec": {"a": "x".repeat(21_000)}}});
    assert_eq!(of(json!({}), large.clone(), 200), ["spec.template"]);
    assert_eq!(of(json!({}), large, 199), [""; 0]);
}
