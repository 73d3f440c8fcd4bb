//! Bounds of an executor.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Bounds of an executor.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Writes at once, of all plans for workloads of one kind: a kind whose writes hang holds up no other kind.
    pub parallel: usize,
    /// Steps at once of one plan.
    pub parallel_per_plan: usize,
    /// At most for one write; less when the leader's time ends sooner, and then the leader takes more time for the next.
    pub timeout: Duration,
    /// Owner of the fields in `metadata.managedFields`.
    pub field_manager: String,
    /// From then on nothing is begun: what is under way ends, and the rest of a plan is the next leader's.
    pub stop: CancellationToken,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallel: 64,
            parallel_per_plan: 32,
            timeout: Duration::from_secs(10),
            field_manager: "berth-controller".to_owned(),
            stop: CancellationToken::new(),
        }
    }
}
