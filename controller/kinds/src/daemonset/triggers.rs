//! Changes of nodes that concern a DaemonSet. Most do not: kubelets renew their nodes' conditions
//! all the time, and a node usually concerns few of many DaemonSets.

use berth_api::names::annotation::UPDATE_TOPOLOGY_KEY;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::Fit;
use berth_workload::objects::selector::Selector;

use super::held::holds_revision;
use super::places::Fits;

/// The part of a DaemonSet that decides which changes of nodes trigger it. It is read from the
/// template once, and used at every change of every node.
#[derive(Debug, Clone)]
pub struct Triggers {
    fits: Fits,
    /// The nodes that an update may reach. An invalid selector reaches none, because such a spec is
    /// refused.
    selector: Option<Selector>,
    /// The label by which nodes are updated zone by zone.
    zone_key: Option<String>,
    /// Whether nodes that an update leaves out keep their revision, by a template that is not
    /// available here.
    holds_revision: bool,
}

/// All that a decision reads of a node with an unchanged uid.
#[derive(PartialEq)]
struct Answer<'a> {
    fit: Fit,
    /// Only for nodes that must have a pod; a decision reads no more of other nodes.
    of_wanted: Option<OfWanted<'a>>,
}

#[derive(PartialEq)]
struct OfWanted<'a> {
    is_ready: bool,
    is_selected: bool,
    zone: Option<&'a str>,
}

impl Triggers {
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

    /// Whether this change of a node triggers a decision. Without `old` the node joins, without
    /// `new` it is gone. The caller must also check whether a node that joins or is gone has pods
    /// ([`is_another`]).
    pub fn is_one(&self, old: Option<&Node>, new: Option<&Node>) -> bool {
        if let (Some(before), Some(now)) = (old, new)
            && !is_another(old, new)
        {
            let by_template = || self.answer(before) != self.answer(now);
            let by_another = || self.holds_revision && self.fits.of(now) == Fit::Wanted;
            return !is_alike(before, now) && (by_template() || by_another());
        }
        // A node that joins needs a pod, or changes nothing. A node that is gone may leave a pod
        // behind that was never bound to it.
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

/// Whether nothing has changed that any DaemonSet reads. This holds for all that a kubelet of a
/// healthy node reports.
fn is_alike(before: &Node, now: &Node) -> bool {
    let facts = |node: &Node| (node.ready, node.cordoned);
    facts(before) == facts(now)
        && before.taints == now.taints
        && before.metadata.labels == now.metadata.labels
}

/// Whether the node was added or removed, or is another one of the same name.
pub fn is_another(old: Option<&Node>, new: Option<&Node>) -> bool {
    let uid = |node: Option<&Node>| node.map(|node| node.metadata.uid.clone());
    uid(old) != uid(new)
}

#[cfg(test)]
mod tests;
