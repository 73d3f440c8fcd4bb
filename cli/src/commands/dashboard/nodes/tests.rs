use super::*;

fn pod(owner: &str) -> Value {
    let owners = match owner {
        "" => json!([]),
        kind => json!([{"kind": kind, "controller": true}]),
    };
    json!({"metadata": {
        "name": "web-a", "namespace": "default", "labels": {"app": "web"}, "ownerReferences": owners,
    }})
}

#[test]
fn drain_answers_by_owner_and_budget() {
    let mut mirror = pod("Node");
    mirror["metadata"]["annotations"] = json!({MIRROR_POD: "1"});
    let mut ended = pod("");
    ended["status"] = json!({"phase": "Succeeded"});
    let held = || Some("PodDisruptionBudget web allows 1 now".to_owned());
    let cases = [
        (pod("CloneSet"), None, "goes: no budget holds it"),
        (
            pod("CloneSet"),
            held(),
            "PodDisruptionBudget web allows 1 now",
        ),
        (
            pod("DaemonSet"),
            held(),
            "stays: `kubectl drain --ignore-daemonsets` leaves it",
        ),
        (mirror, None, "stays: a static pod"),
        (ended, held(), "goes: it has ended"),
        (
            pod(""),
            None,
            "stays: no controller would replace it; `kubectl drain --force` deletes it",
        ),
    ];
    for (pod, held, expected) in cases {
        assert_eq!(answer(&pod, held), expected);
    }
}

#[test]
fn native_budgets_answer_for_pods_they_select() {
    let budget = |selector: Value, allowed: i64| {
        let status = json!({"disruptionsAllowed": allowed});
        json!({"metadata": {"name": "b"}, "spec": {"selector": selector}, "status": status})
    };
    let cases = [
        (
            budget(json!({"matchLabels": {"app": "web"}}), 0),
            Some("PodDisruptionBudget b allows no disruption now"),
        ),
        (
            budget(json!({"matchLabels": {"app": "web"}}), 2),
            Some("PodDisruptionBudget b allows 2 now"),
        ),
        (budget(json!({"matchLabels": {"app": "db"}}), 0), None),
        (
            budget(
                json!({"matchExpressions": [{"key": "app", "operator": "Odd"}]}),
                0,
            ),
            None,
        ),
        (json!({}), None),
    ];
    for (budget, expected) in cases {
        let mut held = Answers::new();
        native(
            &[pod("CloneSet")],
            "default",
            std::slice::from_ref(&budget),
            &mut held,
        );
        let says = held.into_values().flatten().next();
        assert_eq!(says.as_deref(), expected, "{budget}");
    }
}

#[test]
fn node_line_counts_images_and_pulls() {
    let node = json!({
        "metadata": {"name": "node-1"}, "spec": {"unschedulable": true},
        "status": {
            "images": [{"sizeBytes": 5}, {"sizeBytes": 6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let images = json!({"status": {"desired": 2, "succeeded": 1, "pulling": 1, "imageStatuses": {
        "web": {"tags": [{"tag": "1", "phase": "Succeeded"}, {"tag": "2", "phase": "Pulling"}]},
    }}});
    let line = line(&node, Some(&images));
    assert_eq!(
        (&line["ready"], &line["cordoned"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        (&line["images"], &line["imageBytes"]),
        (&json!(2), &json!(11))
    );
    assert_eq!(line["pulls"]["pulling"], 1);
    assert_eq!(line["pulls"]["shown"][0]["image"], "web:2");
    assert_eq!(super::line(&node, None)["pulls"]["desired"], json!(null));
}
