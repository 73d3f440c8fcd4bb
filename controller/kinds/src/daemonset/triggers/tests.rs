use berth_api::names::annotation::{DAEMONSET_HOLD_REVISION, DAEMONSET_IGNORE_UNSCHEDULABLE};
use serde_json::{Value, json};

use super::*;

fn node(change: &Value) -> Node {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let mut node = json!({
        "metadata": {"name": "n1", "uid": "1", "labels": {"zone": "a"}}, "spec": {}, "status": {"conditions": ready},
    });
    crate::model::apiserver::merge(&mut node, change);
    serde_json::from_value(node).unwrap()
}

fn triggers(spec: Value, annotations: &Value) -> Triggers {
    let mut set = json!({"metadata": {"name": "log", "annotations": annotations}, "spec": {"selector": {}, "template": {}}});
    crate::model::apiserver::merge(&mut set["spec"], &spec);
    Triggers::new(&serde_json::from_value(set).unwrap())
}

#[test]
fn node_change_concerns_sets_whose_fit_changes() {
    let in_zone = |zone: &str| json!({"template": {"spec": {"nodeSelector": {"zone": zone}}}});
    let (everywhere, here, there) = (json!({}), in_zone("a"), in_zone("b"));
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"selector": {"matchLabels": {"canary": "yes"}}}}});
    let selects = |zone: &str| {
        let mut spec = in_zone(zone);
        crate::model::apiserver::merge(&mut spec, &rolling);
        spec
    };
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
    let as_before = node(&json!({}));
    let same = Some(json!({}));
    let labelled = |labels: Value| Some(json!({"metadata": {"labels": labels}}));
    for (what, spec, new, expected) in [
        ("a heartbeat", &everywhere, same.clone(), false),
        ("gone", &everywhere, None, true),
        ("gone", &here, None, true),
        ("gone", &there, None, false),
        (
            "not ready",
            &here,
            Some(json!({"status": {"conditions": null}})),
            true,
        ),
        (
            "not ready",
            &there,
            Some(json!({"status": {"conditions": null}})),
            false,
        ),
        (
            "another node",
            &here,
            Some(json!({"metadata": {"uid": "2"}})),
            true,
        ),
        (
            "another node",
            &there,
            Some(json!({"metadata": {"uid": "2"}})),
            false,
        ),
        (
            "being deleted",
            &here,
            Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            false,
        ),
        ("a label", &everywhere, labelled(json!({"x": "y"})), false),
        ("a label", &selects("a"), labelled(json!({"x": "y"})), false),
        (
            "the label of the update",
            &selects("a"),
            labelled(json!({"canary": "yes"})),
            true,
        ),
        (
            "another value of it",
            &selects("a"),
            labelled(json!({"canary": "no"})),
            false,
        ),
        (
            "the label of the update",
            &selects("b"),
            labelled(json!({"canary": "yes"})),
            false,
        ),
        ("another zone", &here, labelled(json!({"zone": "b"})), true),
        ("another zone", &there, labelled(json!({"zone": "b"})), true),
        (
            "another zone",
            &in_zone("c"),
            labelled(json!({"zone": "b"})),
            false,
        ),
        ("a taint", &here, Some(taint("NoSchedule")), true),
        ("a taint", &there, Some(taint("NoExecute")), false),
        (
            "a taint that only asks",
            &here,
            Some(taint("PreferNoSchedule")),
            false,
        ),
        (
            "a cordon",
            &here,
            Some(json!({"spec": {"unschedulable": true}})),
            false,
        ),
    ] {
        let new = new.map(|change| node(&change));
        let triggers = triggers(spec.clone(), &json!({}));
        assert_eq!(
            triggers.is_one(Some(&as_before), new.as_ref()),
            expected,
            "{what} {spec}"
        );
    }
    for (spec, expected) in [(&everywhere, true), (&here, true), (&there, false)] {
        assert_eq!(
            triggers(spec.clone(), &json!({})).is_one(None, Some(&as_before)),
            expected,
            "joins {spec}"
        );
    }
    let ignoring = triggers(here, &json!({DAEMONSET_IGNORE_UNSCHEDULABLE: "true"}));
    let cordoned = node(&json!({"spec": {"unschedulable": true}}));
    assert!(ignoring.is_one(Some(&as_before), Some(&cordoned)));
}

#[test]
fn with_topology_key_only_its_label_triggers() {
    let triggers = triggers(json!({}), &json!({UPDATE_TOPOLOGY_KEY: "zone"}));
    let as_before = node(&json!({}));
    for (labels, expected) in [
        (json!({"x": "y"}), false),
        (json!({"zone": "b"}), true),
        (json!({"zone": null}), true),
    ] {
        let now = node(&json!({"metadata": {"labels": labels}}));
        assert_eq!(
            triggers.is_one(Some(&as_before), Some(&now)),
            expected,
            "{labels}"
        );
    }
}

/// The template that a rollout leaves nodes at may be for others than the set's own.
#[test]
fn with_hold_revision_any_scheduling_change_triggers() {
    let tolerant = json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}});
    let as_before = node(&json!({}));
    for (change, expected) in [
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            true,
        ),
        (json!({"metadata": {"labels": {"x": "y"}}}), true),
        (json!({"spec": {"unschedulable": true}}), true),
        (json!({}), false),
    ] {
        let now = node(&change);
        for (holds, expected) in [("true", expected), ("false", false)] {
            let triggers = triggers(tolerant.clone(), &json!({DAEMONSET_HOLD_REVISION: holds}));
            assert_eq!(
                triggers.is_one(Some(&as_before), Some(&now)),
                expected,
                "{holds} {change}"
            );
        }
    }
    let elsewhere = json!({"template": {"spec": {"nodeSelector": {"zone": "b"}}}});
    let triggers = triggers(elsewhere, &json!({DAEMONSET_HOLD_REVISION: "true"}));
    let labelled = node(&json!({"metadata": {"labels": {"x": "y"}}}));
    assert!(
        !triggers.is_one(Some(&as_before), Some(&labelled)),
        "no node of the set's"
    );
}

#[test]
fn node_triggers_only_when_its_pod_placement_changes() {
    let triggers = triggers(json!({}), &json!({}));
    let taint = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let not_ready = json!({"spec": {"taints": taint}, "status": {"conditions": null}});
    let (ready, tainted) = (node(&json!({})), node(&not_ready));
    let ready_but_tainted = node(&json!({"spec": {"taints": taint}}));
    for (what, old, new, expected) in [
        ("joins", None, Some(&tainted), false),
        (
            "gets ready",
            Some(&tainted),
            Some(&ready_but_tainted),
            false,
        ),
        (
            "loses its taint",
            Some(&ready_but_tainted),
            Some(&ready),
            true,
        ),
        ("gets its taint", Some(&ready), Some(&tainted), true),
        (
            "is gone, and may leave a pod behind",
            Some(&tainted),
            None,
            true,
        ),
    ] {
        assert_eq!(triggers.is_one(old, new), expected, "{what}");
    }
}

#[test]
fn node_change_concerns_matching_sets_of_fifty() {
    let sets: Vec<_> = (0..50)
        .map(|number| {
            triggers(
                json!({"template": {"spec": {"nodeSelector": {format!("set-{number}"): "true"}}}}),
                &json!({}),
            )
        })
        .collect();
    let of = |labels: &[&str]| {
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|key| ((*key).to_owned(), json!("true")))
            .collect();
        node(&json!({"metadata": {"labels": labels}}))
    };
    let not_ready = |labels: &[&str]| Node {
        ready: false,
        ..of(labels)
    };
    for (what, old, new, expected) in [
        ("a label", Some(of(&[])), Some(of(&["set-3"])), vec![3]),
        (
            "one in place of another",
            Some(of(&["set-3"])),
            Some(of(&["set-4"])),
            vec![3, 4],
        ),
        (
            "a label of no set",
            Some(of(&["set-3"])),
            Some(of(&["set-3", "other"])),
            vec![],
        ),
        (
            "not ready",
            Some(of(&["set-3", "set-4"])),
            Some(not_ready(&["set-3", "set-4"])),
            vec![3, 4],
        ),
        ("joins", None, Some(of(&["set-49"])), vec![49]),
        ("is gone", Some(of(&["set-49", "set-0"])), None, vec![0, 49]),
    ] {
        let woken: Vec<_> = (0..50)
            .filter(|number| sets[*number].is_one(old.as_ref(), new.as_ref()))
            .collect();
        assert_eq!(woken, expected, "{what}");
    }
}

#[test]
fn node_with_another_uid_is_another_node() {
    let (one, two) = (node(&json!({})), node(&json!({"metadata": {"uid": "2"}})));
    for (old, new, expected) in [
        (Some(&one), Some(&one), false),
        (Some(&one), Some(&two), true),
        (None, Some(&one), true),
        (Some(&one), None, true),
    ] {
        assert_eq!(is_another(old, new), expected, "{old:?} {new:?}");
    }
}
