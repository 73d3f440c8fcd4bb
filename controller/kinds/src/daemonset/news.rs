//! Which changes of nodes concern a DaemonSet. Most do not: kubelets renew their nodes' conditions all the time, and of many
//! DaemonSets a node mostly concerns few.

use berth_api::names::annotation::UPDATE_TOPOLOGY_KEY;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::node::Node;
use berth_workload::node::placement::Fit;

use super::places::Fits;

/// What of a DaemonSet says which changes of nodes are to be decided on. It is read from the template once, and asked at every change
/// of every node.
#[derive(Debug, Clone)]
pub struct News {
    fits: Fits,
    /// Nodes are chosen by their labels for an update.
    selects: bool,
}

impl News {
    /// To be made anew when spec or annotations change.
    pub fn new(set: &DaemonSet) -> Self {
        let rolling = set.spec.update_strategy.rolling_update.as_ref();
        let by_zone = set.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(UPDATE_TOPOLOGY_KEY));
        Self {
            fits: Fits::new(set, &set.spec.template.value()),
            selects: by_zone || rolling.is_some_and(|rolling| rolling.selector.is_some()),
        }
    }

    /// Is this change of a node one to decide on? Without the one of before it joins, without that of now it is gone. Whether
    /// there are pods on a node that comes or goes is to be asked beside this ([`is_another`]).
    pub fn is_one(&self, old: Option<&Node>, new: Option<&Node>) -> bool {
        let fit = |node: Option<&Node>| node.map_or(Fit::Unwanted, |node| self.fits.of(node));
        let concerns = || fit(old) != Fit::Unwanted || fit(new) != Fit::Unwanted;
        let (Some(before), Some(now)) = (old, new) else { return concerns() };
        let facts = |node: &Node| (node.ready, node.metadata.deletion_timestamp.is_some());
        if is_another(old, new) || facts(before) != facts(now) {
            return concerns();
        }
        let has_labels = before.metadata.labels == now.metadata.labels;
        if has_labels && before.taints == now.taints && before.cordoned == now.cordoned {
            return false;
        }
        fit(old) != fit(new) || self.selects && !has_labels && concerns()
    }
}

/// Has the node come or gone, or is it another of the same name?
pub fn is_another(old: Option<&Node>, new: Option<&Node>) -> bool {
    let uid = |node: Option<&Node>| node.map(|node| node.metadata.uid.clone());
    uid(old) != uid(new)
}

#[cfg(test)]
mod tests {
    use berth_api::names::annotation::DAEMONSET_IGNORE_UNSCHEDULABLE;
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

    fn news(spec: Value, annotations: &Value) -> News {
        let mut set =
            json!({"metadata": {"name": "log", "annotations": annotations}, "spec": {"selector": {}, "template": {}}});
        crate::model::apiserver::merge(&mut set["spec"], &spec);
        News::new(&serde_json::from_value(set).unwrap())
    }

    #[test]
    fn a_change_of_a_node_concerns_the_sets_whose_answer_changes() {
        let in_zone = |zone: &str| json!({"template": {"spec": {"nodeSelector": {"zone": zone}}}});
        let (everywhere, here, there) = (json!({}), in_zone("a"), in_zone("b"));
        let selects = json!({"updateStrategy": {"rollingUpdate": {"selector": {"matchLabels": {"canary": "yes"}}}}});
        let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
        let as_before = node(&json!({}));
        let same = Some(json!({}));
        let labelled = |labels: Value| Some(json!({"metadata": {"labels": labels}}));
        for (what, spec, new, expected) in [
            ("a heartbeat", &everywhere, same.clone(), false),
            ("gone", &everywhere, None, true),
            ("gone", &here, None, true),
            ("gone", &there, None, false),
            ("not ready", &here, Some(json!({"status": {"conditions": null}})), true),
            ("not ready", &there, Some(json!({"status": {"conditions": null}})), false),
            ("another node", &here, Some(json!({"metadata": {"uid": "2"}})), true),
            ("another node", &there, Some(json!({"metadata": {"uid": "2"}})), false),
            ("being deleted", &here, Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), true),
            ("a label", &everywhere, labelled(json!({"x": "y"})), false),
            ("a label", &selects, labelled(json!({"x": "y"})), true),
            ("another zone", &here, labelled(json!({"zone": "b"})), true),
            ("another zone", &there, labelled(json!({"zone": "b"})), true),
            ("another zone", &in_zone("c"), labelled(json!({"zone": "b"})), false),
            ("a taint", &here, Some(taint("NoSchedule")), true),
            ("a taint", &there, Some(taint("NoExecute")), false),
            ("a taint that only asks", &here, Some(taint("PreferNoSchedule")), false),
            ("a cordon", &here, Some(json!({"spec": {"unschedulable": true}})), false),
        ] {
            let new = new.map(|change| node(&change));
            let news = news(spec.clone(), &json!({}));
            assert_eq!(news.is_one(Some(&as_before), new.as_ref()), expected, "{what} {spec}");
        }
        for (spec, expected) in [(&everywhere, true), (&here, true), (&there, false)] {
            assert_eq!(news(spec.clone(), &json!({})).is_one(None, Some(&as_before)), expected, "joins {spec}");
        }
        let ignoring = news(here, &json!({DAEMONSET_IGNORE_UNSCHEDULABLE: "true"}));
        let cordoned = node(&json!({"spec": {"unschedulable": true}}));
        assert!(ignoring.is_one(Some(&as_before), Some(&cordoned)));
    }

    #[test]
    fn a_node_of_another_uid_is_another() {
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
}
