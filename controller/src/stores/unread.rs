//! What a client may not read.

use std::fmt;

use berth_runtime::{Resource, object};
use berth_workload::objects::resource::POD_DISRUPTION_BUDGETS;

/// The client may not read what a plan needs. The text names the right, and the role that grants
/// it.
#[derive(Debug)]
pub struct NoPlan(String);

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoPlan {}

/// A resource that the client may not read.
pub(crate) struct Unread {
    pub(crate) resource: Resource,
    /// The apiserver's refusal, which names the right.
    pub(crate) message: String,
}

impl Unread {
    /// The error that ends the making of a plan.
    pub(crate) fn no_plan(&self) -> NoPlan {
        NoPlan(format!("{}{}", self.message, self.remedy()))
    }

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
