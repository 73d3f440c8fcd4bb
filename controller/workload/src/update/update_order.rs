//! The order of updates by `priorityStrategy` and `scatterStrategy`.
//!
//! Both rearrange an existing order: pods that they treat alike keep their order.

mod priority;
mod scatter;

use std::sync::Arc;

use berth_api::fields::update_order::{UpdatePriorityStrategy, UpdateScatterTerm};

use crate::objects::pod::Pod;
use priority::Priority;

/// The order by the two strategies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateOrder {
    priority: Priority,
    scatter: Vec<UpdateScatterTerm>,
}

impl UpdateOrder {
    /// Reads the strategies.
    ///
    /// # Errors
    /// The sentence names the term under `priorityStrategy` whose selector makes no sense, and why.
    pub fn new(
        priority: Option<&UpdatePriorityStrategy>,
        scatter: &[UpdateScatterTerm],
    ) -> Result<Self, String> {
        let priority = priority.map_or(Ok(Priority::default()), Priority::new)?;
        Ok(Self {
            priority,
            scatter: scatter.to_vec(),
        })
    }

    /// Rearranges the pods that wait for their update, first by priority, then scattered. `all` are
    /// all pods of the workload, updated ones included. The share of a label among them shows
    /// whether its pods are ahead.
    pub fn arrange(&self, mut waiting: Vec<Arc<Pod>>, all: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        self.priority.sort(&mut waiting);
        scatter::scatter(&self.scatter, waiting, all)
    }
}

#[cfg(test)]
mod tests;
