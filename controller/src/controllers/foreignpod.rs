//! Pods that no workload of ours owns, and that wait for something that the pod webhook gave them.

use std::sync::Arc;

use berth_kinds::foreignpod::{concerns, decide};
use berth_runtime::driver::Next;
use berth_runtime::executor::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store, object};
use berth_workload::pod::Pod;
use jiff::Timestamp;

use crate::acting::{Acting, next};
use crate::controllers::Controller;
use crate::reads::Reader;

/// What a decision about such a pod is made of.
pub(crate) struct Reads {
    pods: Arc<Store<Pod>>,
}

impl Controller for Reads {
    const RESOURCE: Resource = object::PODS;
    const NAME: &'static str = "foreignpod";
    // What waits does so though SidecarSets are not worked on any more.
    const WHATEVER_KINDS: bool = true;

    fn new(reader: &mut Reader<'_>) -> Self {
        Self { pods: reader.read() }
    }

    /// Wakes a pod as long as it waits, and when it no longer does.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        let (to, acting) = (queue.clone(), acting.clone());
        self.pods.on_change(move |change| match change {
            Change::Applied { old, new } => {
                let waits = concerns(new) || old.as_ref().is_some_and(|old| concerns(old));
                if waits && !acting.injection.protects(new.namespace()) {
                    to.add(Key::of(&**new));
                }
            }
            Change::Deleted { old } => acting.expectations.forget(old.uid()),
            Change::Synced => {}
        });
    }

    /// One round for one pod.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let pod = || self.pods.get(&key.namespace, &key.name);
        let Some(uid) = pod().map(|pod| pod.metadata.uid.clone()) else { return Next::Done };
        if let Err(next) = acting.settled(&uid).await {
            return next;
        }
        // As it is once its last writes are seen.
        let Some(pod) = pod().filter(|pod| pod.metadata.uid == uid && concerns(pod)) else { return Next::Done };
        let plan = decide(&pod, Timestamp::now());
        let outcome = acting.executor.act(&plan, &Owner::of(&*pod)).await;
        acting.forget_if_gone(&self.pods, &*pod);
        next(&plan, &outcome, Ok(false))
    }
}
