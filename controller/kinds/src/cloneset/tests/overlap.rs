//! CloneSets of one namespace whose selectors overlap.

use serde_json::{Value, json};

use berth_api::v1beta1::cloneset::CloneSet;
use berth_workload::feature_gates::Gates;
use berth_workload::pod_owner::PodOwner;
use berth_workload::update::podset::overlap;

use super::super::CloneSetOwner;

fn overlap(one: &CloneSet, other: &CloneSet) -> bool {
    let of = |set| CloneSetOwner::workload(set, Gates::default());
    overlap::overlap(&of(one), &of(other))
}

fn set(uid: &str, selector: Value, labels: Value) -> CloneSet {
    serde_json::from_value(json!({
        "metadata": {"name": uid, "uid": uid},
        "spec": {"selector": selector, "template": {"metadata": {"labels": labels}}},
    }))
    .unwrap()
}

#[test]
fn what_selects_the_pods_of_another_overlaps() {
    let web = set(
        "web",
        json!({"matchLabels": {"app": "web"}}),
        json!({"app": "web", "tier": "a"}),
    );
    let cases = [
        (
            "the same",
            json!({"matchLabels": {"app": "web"}}),
            json!({"app": "web"}),
            true,
        ),
        (
            "one within the other",
            json!({"matchLabels": {"tier": "a"}}),
            json!({"tier": "a"}),
            true,
        ),
        (
            "its pods are selected",
            json!({"matchLabels": {"x": "y"}}),
            json!({"app": "web", "x": "y"}),
            true,
        ),
        (
            "another value",
            json!({"matchLabels": {"app": "api"}}),
            json!({"app": "api"}),
            false,
        ),
        (
            "by expression",
            json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            json!({"app": "x"}),
            true,
        ),
        ("empty", json!({}), json!({"a": "b"}), false),
    ];
    for (name, selector, labels, overlaps) in cases {
        let other = set("other", selector, labels);
        assert_eq!(
            (overlap(&web, &other), overlap(&other, &web)),
            (overlaps, overlaps),
            "{name}"
        );
    }
    assert!(!overlap(&web, &web), "not with itself");
}
