//! The budgets that hold a pod, and those that the stores lack.

use std::sync::Arc;

use berth_webhook::pods::NotYet;
use berth_workload::selector::Selector;
use tokio::sync::oneshot;

use super::budget::{BudgetKey, Holds};
use super::queues::Queues;

/// The budgets that hold a pod.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// In the order in which they are drawn from.
    pub(super) keys: Vec<BudgetKey>,
    /// What is told of one that this version cannot read.
    pub(super) unreadable: Option<String>,
}

impl Holding {
    /// No budget holds the pod.
    pub(super) fn is_free(&self) -> bool {
        self.keys.is_empty() && self.unreadable.is_none()
    }
}

/// The budgets of a namespace that the stores lack, or have as they were before their spec changed.
#[derive(Debug, Default)]
pub(super) struct Unseen(pub(super) Vec<(BudgetKey, Held)>);

impl Unseen {
    /// The stores lack none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The pods of a budget.
#[derive(Debug)]
pub(super) enum Held {
    By(Box<Holds>),
    /// Nobody can read the budget, and it may hold what this matches; all pods, where there is nothing to match.
    Unreadable(Option<Selector>),
}

/// Who waits for a look, by namespace.
pub(super) type Looks = Queues<String, oneshot::Sender<Looked>>;

/// What a look finds.
pub(super) type Looked = Result<Arc<Unseen>, NotYet>;
