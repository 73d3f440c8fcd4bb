//! CloneSets of one namespace whose selectors overlap.
//!
//! Pods stay with their owner, so nothing breaks at once; but whoever counts pods by the selector, like a
//! HorizontalPodAutoscaler or a Service, counts both. The one that came later says so.

use berth_api::names::condition;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_workload::plan::{Event, Plan};
use berth_workload::selector::Selector;

use super::Snapshot;

/// The condition's and the event's reason.
pub(super) const REASON: &str = "OverlappingSelector";

/// Does the selector of one select the pods that the other makes? Selectors that are refused select nothing.
pub fn overlap(one: &CloneSet, other: &CloneSet) -> bool {
    let selects = |one: &CloneSet, other: &CloneSet| {
        let template = &other.spec.template;
        // Most CloneSets differ in a label, and that is seen without reading the whole selector.
        let mut wanted = one.spec.selector.match_labels.iter().flatten();
        wanted.all(|(key, value)| template.label(key) == Some(value))
            && Selector::new(&one.spec.selector).is_ok_and(|s| !s.is_empty() && s.matches(|key| template.label(key)))
    };
    one.metadata.uid != other.metadata.uid && (selects(one, other) || selects(other, one))
}

/// The sentence for the condition and the event; nothing where no other overlaps.
pub(super) fn message(snapshot: &Snapshot) -> Option<String> {
    let others = &snapshot.overlapping;
    if others.is_empty() {
        return None;
    }
    let selector = Selector::new(&snapshot.set.spec.selector).map(|s| s.to_string()).unwrap_or_default();
    Some(format!(
        "{}: spec.selector: \"{selector}\" overlaps with that of CloneSet {}; each keeps the pods that it made, \
         but who selects pods by these labels gets both: give their templates and selectors different labels",
        snapshot.scene().workload,
        others.join(", ")
    ))
}

/// An event, once.
pub(super) fn tell(snapshot: &Snapshot, plan: &mut Plan) {
    let Some(message) = message(snapshot) else { return };
    let conditions = snapshot.set.status.iter().flat_map(|status| &status.conditions);
    // While something graver is told in the condition, this is not news that anybody can act on first.
    let told = conditions.into_iter().any(|c| c.type_ == condition::BLOCKED);
    if !told {
        plan.events.push(Event { warning: true, reason: REASON, message });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(uid: &str, selector: Value, labels: Value) -> CloneSet {
        serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid},
            "spec": {"selector": selector, "template": {"metadata": {"labels": labels}}},
        }))
        .unwrap()
    }

    #[test]
    fn what_selects_the_pods_of_another_overlaps() {
        let web = set("web", json!({"matchLabels": {"app": "web"}}), json!({"app": "web", "tier": "a"}));
        let cases = [
            ("the same", json!({"matchLabels": {"app": "web"}}), json!({"app": "web"}), true),
            ("one within the other", json!({"matchLabels": {"tier": "a"}}), json!({"tier": "a"}), true),
            ("its pods are selected", json!({"matchLabels": {"x": "y"}}), json!({"app": "web", "x": "y"}), true),
            ("another value", json!({"matchLabels": {"app": "api"}}), json!({"app": "api"}), false),
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
            assert_eq!((overlap(&web, &other), overlap(&other, &web)), (overlaps, overlaps), "{name}");
        }
        assert!(!overlap(&web, &web), "not with itself");
    }
}
