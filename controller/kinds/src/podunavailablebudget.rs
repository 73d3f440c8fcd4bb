//! PodUnavailableBudget: how many of its pods serve, how many must, and what became of what was granted. Who grants is in
//! [`berth_workload::budget`], for it is not the controller alone.

mod decide;
mod explain;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_workload::budget::asked::Asked;
use berth_workload::budget::child::Without;
use berth_workload::budget::count::View;
use berth_workload::budget::native::NativeBudget;

pub use decide::{beyond, decide};
pub use explain::explain;
pub use status::{is_urgent, status};

/// All that a decision about one budget reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The budget.
    pub budget: Arc<PodUnavailableBudget>,
    /// What is counted.
    pub view: View,
    /// Whether the apiserver asks before pods are taken out of service.
    pub asked: Asked,
    /// The native budget of its name.
    pub child: Option<Arc<NativeBudget>>,
    /// Whether it is to keep one.
    pub keeps: Result<(), Without>,
}

/// The reason of an event and of a condition: nobody knows how many pods are expected.
const UNCOUNTED: &str = "CalculateExpectedPodCountFailed";
/// The reason of an event and of a condition: there are no pods.
const NO_PODS: &str = "NoPods";
