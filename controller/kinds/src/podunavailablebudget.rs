//! PodUnavailableBudget: how many of its pods serve, how many must, and the state of its
//! reservations. Reservations are in [`berth_workload::budget`], because other components than the
//! controller make them, too.

mod decide;
mod explain;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_workload::budget::child::Without;
use berth_workload::budget::count::View;
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::webhook_calls::WebhookCalls;

pub use decide::{beyond, decide};
pub use explain::explain;
pub use status::{is_urgent, status};

/// All that a decision about one budget reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The budget.
    pub budget: Arc<PodUnavailableBudget>,
    /// The numbers of its pods.
    pub view: View,
    /// Whether the apiserver calls the webhook before pods are taken out of service.
    pub webhook_calls: WebhookCalls,
    /// The native budget of its name.
    pub child: Option<Arc<NativeBudget>>,
    /// Whether the budget must keep a native budget.
    pub keeps: Result<(), Without>,
}

/// The reason of an event and of a condition: the number of expected pods is unknown.
const UNCOUNTED: &str = "CalculateExpectedPodCountFailed";
/// The reason of an event and of a condition: the budget selects no pods.
const NO_PODS: &str = "NoPods";
