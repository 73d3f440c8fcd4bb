//! What a controller of a kind is.

use std::sync::Arc;
use std::time::Duration;

use berth_runtime::driver::Next;
use berth_runtime::queue::Queue;
use berth_runtime::{Key, Resource};
use berth_workload::feature_gates::Gates;
use prometheus_client::registry::Registry;

use crate::context::Context;
use crate::stores::reads::Reader;

/// What works on one kind: the stores that it reads.
pub(crate) trait Controller: Send + Sync + Sized + 'static {
    /// The kind.
    const RESOURCE: Resource;
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// Is there something to do for it whichever of our kinds are worked on?
    const WHATEVER_KINDS: bool = false;

    /// Is there anything to do for the kind?
    fn is_possible(_: Gates) -> bool {
        true
    }

    /// Why no object of the kind is taken in; `None` if they are.
    fn closed(_: Gates) -> Option<String> {
        None
    }

    /// Says what it reads.
    fn new(reader: &mut Reader<'_>) -> Self;

    /// Registers the metrics of its kind.
    fn register(_: &mut Registry, _: &mut Reader<'_>) {}

    /// How long an object waits at least when a pod budget that refused it something has room.
    fn pace(&self, _: &Key) -> Duration {
        Duration::ZERO
    }

    /// Registers the hooks that put keys into the queue.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>);

    /// One round for one key.
    fn reconcile(&self, context: &Context, key: Key) -> impl Future<Output = Next> + Send;
}
