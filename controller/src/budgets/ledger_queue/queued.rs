//! The items in the queue of a budget.

use std::sync::Arc;

use berth_webhook::pods::NotYet;
use berth_workload::budget::judge::Decision;
use berth_workload::budget::ledger::Request;
use berth_workload::objects::pod::Pod;
use tokio::sync::oneshot;

use crate::budgets::budget::BudgetKey;
use crate::budgets::ledger_queue::queues::Queues;

/// The decision of a budget, and the request as the budget sees it.
pub(in crate::budgets) type Answer = Result<(Decision, Request), NotYet>;

/// A request for a pod.
#[derive(Clone)]
pub(in crate::budgets) struct QueuedRequest {
    pub(in crate::budgets) request: Request,
    pub(in crate::budgets) pod: Arc<Pod>,
    pub(in crate::budgets) is_dry_run: bool,
}

/// A request to reserve, and its caller.
pub(in crate::budgets) struct Waiting {
    pub(in crate::budgets) queued: QueuedRequest,
    pub(in crate::budgets) answer: oneshot::Sender<Answer>,
}

/// A reservation to release, because another budget refused.
pub(in crate::budgets) struct Release {
    pub(in crate::budgets) request: Request,
    pub(in crate::budgets) done: oneshot::Sender<()>,
}

/// An item in the queue of a budget.
pub(in crate::budgets) enum Queued {
    Reserve(Waiting),
    Release(Release),
}

/// The waiting items, by budget.
pub(in crate::budgets) type LedgerQueue = Queues<BudgetKey, Queued>;
