//! Nodes that are tainted until their images are there.

use std::sync::Arc;

use berth_kinds::joiningnode::{Snapshot, concerns, concerns_image, decide};
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store, object};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::NodeImage;
use jiff::Timestamp;

use crate::context::{Context, next};
use crate::reconcile::controller::Controller;
use crate::stores::reads::Reader;
use crate::stores::watched::Watched;

/// The stores that a decision about such a node reads.
pub(crate) struct JoiningNodeController {
    nodes: Arc<Store<Watched<Node>>>,
    nodeimages: Arc<Store<Watched<NodeImage>>>,
}

impl Controller for JoiningNodeController {
    const RESOURCE: Resource = object::NODES;
    const NAME: &'static str = "joiningnode";
    // A node keeps its taint, and takes no pods, until this controller removes it. So the
    // controller runs even if NodeImages are disabled; the node waits ten minutes at most.
    const WHATEVER_KINDS: bool = true;

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            nodes: reader.read(),
            nodeimages: reader.read(),
        }
    }

    /// Wakes a tainted node when its taints change, when its daemon reports how its first pulls
    /// ended, and when it waits for fewer namespaces.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, context) = (queue.clone(), context.clone());
        self.nodes.on_change(move |change| match change {
            Change::Applied { old, new } if concerns(old.as_ref().map(|old| &*old.0), &new.0) => {
                to.add(Key::of(&**new));
            }
            Change::Deleted { old } => context.expectations.forget(old.uid()),
            Change::Applied { .. } | Change::Synced => {}
        });
        let (to, nodes) = (queue.clone(), self.nodes.clone());
        self.nodeimages.on_change(move |change| {
            let Change::Applied { old, new } = change else {
                return;
            };
            if nodes
                .get("", new.name())
                .is_some_and(|node| node.0.awaits_images())
                && concerns_image(old.as_ref().map(|old| &*old.0), &new.0)
            {
                to.add(Key::of(&**new));
            }
        });
    }

    /// One round for one node.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let node = || {
            self.nodes
                .get("", &key.name)
                .filter(|node| node.0.awaits_images())
        };
        let Some(uid) = node().map(|node| node.uid().to_owned()) else {
            return Next::Done;
        };
        if let Err(next) = context.settled(&uid).await {
            return next;
        }
        // The node after the store has seen its last writes.
        let Some(node) = node().filter(|node| node.uid() == uid) else {
            return Next::Done;
        };
        let image = self
            .nodeimages
            .get("", &key.name)
            .map(|image| image.0.clone());
        let plan = decide(
            &Snapshot {
                node: node.0.clone(),
                image,
            },
            Timestamp::now(),
        );
        let outcome = context.executor.act(&plan, &Owner::of(&*node)).await;
        context.forget_if_gone(&self.nodes, &*node);
        next(&plan, &outcome, Ok(false))
    }
}
