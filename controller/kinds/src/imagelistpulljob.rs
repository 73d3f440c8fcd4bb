//! ImageListPullJob: one ImagePullJob for each image of a list.
//!
//! The ImagePullJobs do the work; the list owns them, and they are deleted with it. Each is created
//! from the list's template, and is replaced when the template changes.

mod children;
mod decide;
mod status;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::imagelistpulljob::ImageListPullJob;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::feature_gates::Gates;

pub use decide::decide;
pub use status::status;
pub use validate::validate;

/// All that a decision about one list reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The list.
    pub list: Arc<ImageListPullJob>,
    /// Every ImagePullJob that it controls, including those that are being deleted, in any order.
    pub jobs: Vec<Arc<ImagePullJob>>,
    /// Feature gates.
    pub gates: Gates,
}

impl Snapshot {
    /// Namespace and name, for messages.
    pub fn name(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!(
            "{}/{}",
            part(&self.list.metadata.namespace),
            part(&self.list.metadata.name)
        )
    }
}
