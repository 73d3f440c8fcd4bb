//! Indexes of pods.

use super::index::Index;
use berth_api::names::label;
use berth_workload::objects::pod::Pod;

/// By the node that the pod is bound to.
pub const BY_NODE: Index<Pod> = Index::new("node", |pod| Some(&*pod.spec.node_name));
/// By namespace.
pub const BY_NAMESPACE: Index<Pod> = Index::new("namespace", |pod| Some(&*pod.metadata.namespace));
/// By namespace: pods without a controller that a deleted workload may have left. The label shows a
/// CloneSet's pods, the number at the end of the name a StatefulSet's, and the only possible node a
/// DaemonSet's.
pub const ORPHANS: Index<Pod> = Index::new("orphans", |pod| {
    let metadata = &pod.metadata;
    let of_clone_set = || metadata.label(label::CLONESET_INSTANCE_ID).is_some();
    let has_ordinal = || {
        metadata
            .name
            .rsplit_once('-')
            .is_some_and(|(_, end)| end.parse::<u32>().is_ok())
    };
    let is_pinned = || pod.spec.pinned_to.is_some();
    let is_orphan =
        metadata.controller().is_none() && (of_clone_set() || has_ordinal() || is_pinned());
    is_orphan.then_some(&*metadata.namespace)
});
/// By the name of the DaemonSet that controls the pod. Its API group and namespace do not matter
/// here.
pub const BY_DAEMON_SET: Index<Pod> = Index::new("daemonset", |pod| {
    pod.metadata
        .controller()
        .filter(|owner| &*owner.kind == "DaemonSet")
        .map(|owner| &*owner.name)
});
