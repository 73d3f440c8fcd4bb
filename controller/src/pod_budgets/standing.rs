//! What stands in the line of a budget.

use std::sync::Arc;

use berth_webhook::pods::NotYet;
use berth_workload::budget::judge::Ruling;
use berth_workload::budget::ledger::Request;
use berth_workload::pod::Pod;
use tokio::sync::oneshot;

use super::budget::BudgetKey;
use super::queues::Queues;

/// What a budget says, and the request as it sees it.
pub(super) type Answer = Result<(Ruling, Request), NotYet>;

/// What somebody wants of a pod.
pub(super) struct Wish {
    pub(super) request: Request,
    pub(super) pod: Arc<Pod>,
    pub(super) is_dry_run: bool,
}

/// Who wants to draw.
pub(super) struct Waiting {
    pub(super) wish: Wish,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Who gives back what was drawn, for another budget refused.
pub(super) struct Return {
    pub(super) request: Request,
    pub(super) done: oneshot::Sender<()>,
}

/// Who stands in the line of a budget.
pub(super) enum Standing {
    Draw(Waiting),
    Return(Return),
}

/// Who waits, by budget.
pub(super) type Lines = Queues<BudgetKey, Standing>;
