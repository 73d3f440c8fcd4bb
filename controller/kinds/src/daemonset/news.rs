//! Which changes of nodes concern a DaemonSet. Most do not: kubelets renew their nodes' conditions all the time, and of many
//! DaemonSets a node mostly concerns few.

use berth_api::names::annotation::UPDATE_TOPOLOGY_KEY;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::Fit;
use berth_workload::objects::selector::Selector;

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
mod tests;
