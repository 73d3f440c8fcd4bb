//! What a client may not read, and what its decisions assume instead.

use std::fmt;
use std::sync::Arc;

use berth_runtime::{Resource, object};
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::POD_DISRUPTION_BUDGETS;
use serde_json::json;

use crate::stores::reads::Stores;
use crate::stores::watched::Watched;

/// Adds a ready node for each pod that is bound to one, for a client that may not read nodes:
/// otherwise decisions would take the nodes for gone.
pub(crate) fn assume_nodes(stores: &mut Stores) {
    let mut reader = stores.reader();
    let (nodes, pods) = (reader.read::<Watched<Node>>(), reader.read::<Pod>());
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    for pod in pods.all() {
        let node = json!({"metadata": {"name": pod.spec.node_name}, "status": ready});
        if !pod.spec.node_name.is_empty()
            && let Ok(node) = serde_json::from_value(node)
        {
            nodes.apply(Watched(Arc::new(node)));
        }
    }
}

/// A resource that the client may not read.
pub(crate) struct Unread {
    pub(crate) resource: Resource,
    /// The apiserver's refusal, which names the right.
    pub(crate) message: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resource {
            plural, namespaced, ..
        } = self.resource;
        write!(f, "what depends on {plural}")?;
        if self.resource == object::NODES {
            write!(f, " (each node is taken for ready)")?;
        }
        write!(f, ", because {}", self.message)?;
        if !namespaced || self.resource == POD_DISRUPTION_BUDGETS {
            write!(f, "; the ClusterRole berth-why grants this")?;
        }
        Ok(())
    }
}
