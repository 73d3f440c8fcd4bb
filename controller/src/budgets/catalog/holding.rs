//! The budgets that hold a pod, and those that the stores lack.

use std::sync::Arc;

use berth_webhook::pods::NotYet;
use berth_workload::objects::selector::Selector;
use tokio::sync::oneshot;

use crate::budgets::budget::{BudgetKey, Holds};
use crate::budgets::ledger_queue::queues::Queues;

/// The budgets that hold a pod.
#[derive(Debug, Default)]
pub(in crate::budgets) struct Holding {
    /// In the order in which requests reserve from them.
    pub(in crate::budgets) keys: Vec<BudgetKey>,
    /// The refusal because of a budget that this version cannot read.
    pub(in crate::budgets) unreadable: Option<String>,
}

impl Holding {
    /// Whether no budget holds the pod.
    pub(in crate::budgets) fn is_free(&self) -> bool {
        self.keys.is_empty() && self.unreadable.is_none()
    }
}

/// The budgets of a namespace that the stores lack, or have as they were before their spec changed.
#[derive(Debug, Default)]
pub(in crate::budgets) struct Uncached(pub(in crate::budgets) Vec<(BudgetKey, Held)>);

impl Uncached {
    /// Whether the stores lack no budget.
    pub(in crate::budgets) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The pods of a budget.
#[derive(Debug)]
pub(in crate::budgets) enum Held {
    By(Box<Holds>),
    /// The budget cannot be read, and it may hold the pods that match; all pods if it has no
    /// selector.
    Unreadable(Option<Selector>),
}

/// The callers that wait for a read of a namespace's budgets from the apiserver, by namespace.
pub(in crate::budgets) type Looks = Queues<String, oneshot::Sender<Looked>>;

/// The result of a read: the budgets that the stores lack.
pub(in crate::budgets) type Looked = Result<Arc<Uncached>, NotYet>;
