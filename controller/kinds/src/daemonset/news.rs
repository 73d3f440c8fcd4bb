//! Which changes of nodes concern a DaemonSet. Most do not: kubelets renew their nodes' conditions all the time, and of many
//! DaemonSets a node mostly concerns few.

use berth_api::names::annotation::UPDATE_TOPOLOGY_KEY;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::node::Node;
use berth_workload::node::placement::Fit;
use berth_workload::selector::Selector;

use super::held::holds_revision;
use super::places::Fits;

/// What of a DaemonSet says which changes of nodes are to be decided on. It is read from the template once, and asked at every change
/// of every node.
#[derive(Debug, Clone)]
pub struct News {
    fits: Fits,
    /// Which nodes an update may reach; one that makes no sense reaches none, for such a spec is refused.
    selector: Option<Selector>,
    /// The label by which nodes are updated zone by zone.
    zone_key: Option<String>,
    /// Nodes that an update leaves out get what they had, by a template that is not at hand here.
    holds_revision: bool,
}

/// All that a decision reads of a node that is the same as before by its uid.
#[derive(PartialEq)]
struct Answer<'a> {
    fit: Fit,
    /// Of nodes that shall have a pod; of others nothing else is read.
    of_wanted: Option<OfWanted<'a>>,
}

#[derive(PartialEq)]
struct OfWanted<'a> {
    is_ready: bool,
    is_selected: bool,
    zone: Option<&'a str>,
}

impl News {
    /// To be made anew when spec or annotations change.
    pub fn new(set: &DaemonSet) -> Self {
        let rolling = set.spec.update_strategy.rolling_update.as_ref();
        let selector = rolling.and_then(|rolling| rolling.selector.as_ref());
        Self {
            fits: Fits::new(set, &set.spec.template.value()),
            selector: selector.and_then(|selector| Selector::new(selector).ok()),
            zone_key: set
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(UPDATE_TOPOLOGY_KEY))
                .cloned(),
            holds_revision: holds_revision(set),
        }
    }

    /// Is this change of a node one to decide on? Without the one of before it joins, without that of now it is gone. Whether
    /// there are pods on a node that comes or goes is to be asked beside this ([`is_another`]).
    pub fn is_one(&self, old: Option<&Node>, new: Option<&Node>) -> bool {
        if let (Some(before), Some(now)) = (old, new)
            && !is_another(old, new)
        {
            let by_template = || self.answer(before) != self.answer(now);
            let by_another = || self.holds_revision && self.fits.of(now) == Fit::Wanted;
            return !is_alike(before, now) && (by_template() || by_another());
        }
        // One that joins is to have a pod, or changes nothing. One that goes may leave one behind that was never bound to it.
        old.is_some_and(|node| self.fits.of(node) != Fit::Unwanted)
            || new.is_some_and(|node| self.fits.of(node) == Fit::Wanted)
    }

    fn answer<'a>(&self, node: &'a Node) -> Answer<'a> {
        let fit = self.fits.of(node);
        let of_wanted = (fit == Fit::Wanted).then(|| OfWanted {
            is_ready: node.ready,
            is_selected: self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(|key| node.metadata.label(key))),
            zone: self
                .zone_key
                .as_ref()
                .and_then(|key| node.metadata.label(key)),
        });
        Answer { fit, of_wanted }
    }
}

/// Has nothing changed that any DaemonSet reads? So it is with all that a kubelet says of a node that just lives.
fn is_alike(before: &Node, now: &Node) -> bool {
    let facts = |node: &Node| (node.ready, node.cordoned);
    facts(before) == facts(now)
        && before.taints == now.taints
        && before.metadata.labels == now.metadata.labels
}

/// Has the node come or gone, or is it another of the same name?
pub fn is_another(old: Option<&Node>, new: Option<&Node>) -> bool {
    let uid = |node: Option<&Node>| node.map(|node| node.metadata.uid.clone());
    uid(old) != uid(new)
}

#[cfg(test)]
mod tests {
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

    fn news(spec: Value, annotations: &Value) -> News {
        let mut set = json!({"metadata": {"name": "log", "annotations": annotations}, "spec": {"selector": {}, "template": {}}});
        crate::model::apiserver::merge(&mut set["spec"], &spec);
        News::new(&serde_json::from_value(set).unwrap())
    }

    #[test]
    fn a_change_of_a_node_concerns_the_sets_whose_answer_changes() {
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
            let news = news(spec.clone(), &json!({}));
            assert_eq!(
                news.is_one(Some(&as_before), new.as_ref()),
                expected,
                "{what} {spec}"
            );
        }
        for (spec, expected) in [(&everywhere, true), (&here, true), (&there, false)] {
            assert_eq!(
                news(spec.clone(), &json!({})).is_one(None, Some(&as_before)),
                expected,
                "joins {spec}"
            );
        }
        let ignoring = news(here, &json!({DAEMONSET_IGNORE_UNSCHEDULABLE: "true"}));
        let cordoned = node(&json!({"spec": {"unschedulable": true}}));
        assert!(ignoring.is_one(Some(&as_before), Some(&cordoned)));
    }

    #[test]
    fn where_nodes_are_updated_zone_by_zone_only_their_zone_is_read() {
        let news = news(json!({}), &json!({UPDATE_TOPOLOGY_KEY: "zone"}));
        let as_before = node(&json!({}));
        for (labels, expected) in [
            (json!({"x": "y"}), false),
            (json!({"zone": "b"}), true),
            (json!({"zone": null}), true),
        ] {
            let now = node(&json!({"metadata": {"labels": labels}}));
            assert_eq!(
                news.is_one(Some(&as_before), Some(&now)),
                expected,
                "{labels}"
            );
        }
    }

    /// The template that a rollout leaves nodes at may be for others than the set's own.
    #[test]
    fn where_nodes_keep_their_revision_whatever_may_keep_a_pod_away_is_news() {
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
                let news = news(tolerant.clone(), &json!({DAEMONSET_HOLD_REVISION: holds}));
                assert_eq!(
                    news.is_one(Some(&as_before), Some(&now)),
                    expected,
                    "{holds} {change}"
                );
            }
        }
        let elsewhere = json!({"template": {"spec": {"nodeSelector": {"zone": "b"}}}});
        let news = news(elsewhere, &json!({DAEMONSET_HOLD_REVISION: "true"}));
        let labelled = node(&json!({"metadata": {"labels": {"x": "y"}}}));
        assert!(
            !news.is_one(Some(&as_before), Some(&labelled)),
            "no node of the set's"
        );
    }

    #[test]
    fn a_node_that_only_bears_pods_changes_nothing_until_it_is_to_have_one() {
        let news = news(json!({}), &json!({}));
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
            assert_eq!(news.is_one(old, new), expected, "{what}");
        }
    }

    #[test]
    fn of_fifty_sets_a_change_concerns_those_it_is_about() {
        let sets: Vec<_> = (0..50)
            .map(|number| {
                news(json!({"template": {"spec": {"nodeSelector": {format!("set-{number}"): "true"}}}}), &json!({}))
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
                "nobody's label",
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
