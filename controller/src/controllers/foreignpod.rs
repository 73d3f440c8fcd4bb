//! Pods that no workload of ours owns, and that wait for something that the pod webhook added to
//! them.

use std::borrow::Cow;
use std::sync::Arc;

use berth_kinds::foreignpod::{LOOK_AGAIN, concerns, decide};
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods::BY_NAMESPACE;
use berth_runtime::{Change, Key, Object, Resource, Store, object};
use berth_workload::budget::surge::is_leftover;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;

use crate::context::{Context, next};
use crate::reconcile::controller::Controller;
use crate::stores::reads::Reader;

/// The stores that a decision about such a pod reads.
pub(crate) struct ForeignPodController {
    pods: Arc<Store<Pod>>,
}

impl Controller for ForeignPodController {
    const RESOURCE: Resource = object::PODS;
    const NAME: &'static str = "foreignpod";
    // A pod that waits does so even if SidecarSets are disabled meanwhile.
    const WHATEVER_KINDS: bool = true;

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            pods: reader.read(),
        }
    }

    /// Wakes a pod while it waits, and when it no longer does.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, context) = (queue.clone(), context.clone());
        self.pods.on_change(move |change| match change {
            Change::Applied { old, new } => {
                let waits = concerns(new) || old.as_ref().is_some_and(|old| concerns(old));
                if waits && !context.injection.protects(new.namespace()) {
                    to.add(Key::of(&**new));
                }
            }
            Change::Deleted { old } => context.expectations.forget(old.uid()),
            Change::Synced => {}
        });
    }

    /// One round for one pod.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let pod = || self.pods.get(&key.namespace, &key.name);
        let Some(uid) = pod().map(|pod| pod.metadata.uid.clone()) else {
            return Next::Done;
        };
        if let Err(next) = context.settled(&uid).await {
            return next;
        }
        // The pod after the store has seen its last writes.
        let Some(pod) = pod().filter(|pod| pod.metadata.uid == uid && concerns(pod)) else {
            return Next::Done;
        };
        let (now, is_leftover) = (Timestamp::now(), is_leftover(&pod));
        let is_awaited = is_leftover && context.pod_budgets.awaits_replacement(&pod, now);
        let all = if is_leftover && !is_awaited {
            self.pods.by_index(&BY_NAMESPACE, &key.namespace)
        } else {
            Vec::new()
        };
        let plan = decide(&pod, (is_awaited, &all), now);
        let owner = Owner::of(&*pod);
        let (admitted, held) = context
            .pod_budgets
            .admitted(Cow::Borrowed(&plan), &owner)
            .await;
        let outcome = context.executor.act(&admitted, &owner).await;
        context.forget_if_gone(&self.pods, &*pod);
        if held.is_empty() {
            next(&plan, &outcome, Ok(false))
        } else {
            Next::After(LOOK_AGAIN.unsigned_abs())
        }
    }
}
