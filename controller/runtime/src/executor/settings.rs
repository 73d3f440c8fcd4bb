//! Limits of an executor.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Limits of an executor.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The most parallel writes for all workloads of one kind. So a kind whose writes hang does not
    /// block other kinds.
    pub parallel: usize,
    /// The most parallel steps of one plan.
    pub parallel_per_plan: usize,
    /// The longest time for one write. It is shorter if the leader's time ends sooner; then the
    /// leader takes more time for the next write.
    pub timeout: Duration,
    /// Owner of the fields in `metadata.managedFields`.
    pub field_manager: String,
    /// When this is cancelled, nothing new begins: running writes end, and the next leader does the
    /// rest of a plan.
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
