//! What a client may not read.

use std::fmt;

use berth_runtime::{Resource, object};
use berth_workload::objects::resource::POD_DISRUPTION_BUDGETS;

/// A resource that the client may not read.
pub(crate) struct Unread {
    pub(crate) resource: Resource,
    /// The apiserver's refusal, which names the right.
    pub(crate) message: String,
}

impl Unread {
    /// The role that grants the right, as the end of a sentence.
    pub(crate) fn remedy(&self) -> &'static str {
        if !self.resource.namespaced || self.resource == POD_DISRUPTION_BUDGETS {
            "; the ClusterRole berth-why grants this"
        } else {
            ""
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resource { plural, .. } = self.resource;
        write!(f, "what depends on {plural}")?;
        if self.resource == object::NODES {
            write!(f, " (each node is taken for ready)")?;
        }
        write!(f, ", because {}{}", self.message, self.remedy())
    }
}
