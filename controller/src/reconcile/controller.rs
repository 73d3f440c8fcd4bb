//! The trait of a kind's controller.

use std::sync::Arc;
use std::time::Duration;

use berth_runtime::driver::Next;
use berth_runtime::queue::Queue;
use berth_runtime::{Key, Resource};
use berth_workload::feature_gates::Gates;
use prometheus_client::registry::Registry;

use crate::context::Context;
use crate::stores::reads::Reader;

/// A controller of one kind, made of the stores that it reads.
pub(crate) trait Controller: Send + Sync + Sized + 'static {
    /// The kind.
    const RESOURCE: Resource;
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// Does it run whichever of our kinds are enabled?
    const WHATEVER_KINDS: bool = false;

    /// Can the controller do anything with these feature gates?
    fn is_possible(_: Gates) -> bool {
        true
    }

    /// Why objects of the kind are refused; `None` if they are accepted.
    fn closed(_: Gates) -> Option<String> {
        None
    }

    /// Declares its reads.
    fn new(reader: &mut Reader<'_>) -> Self;

    /// Registers the metrics of its kind.
    fn register(_: &mut Registry, _: &mut Reader<'_>) {}

    /// The shortest wait of an object after a budget that refused it has capacity again.
    fn pace(&self, _: &Key) -> Duration {
        Duration::ZERO
    }

    /// Registers the hooks that put keys into the queue.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>);

    /// One round for one key.
    fn reconcile(&self, context: &Context, key: Key) -> impl Future<Output = Next> + Send;
}
