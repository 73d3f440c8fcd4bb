//! A request for a reservation, and the entries that belong to it.

use berth_api::v1beta1::podunavailablebudget::{
    LedgerEntry, PodUnavailableBudgetStatus, ProtectedOperation,
};

use crate::objects::pod::Pod;

/// A request to take one pod out of service.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The pod's name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// The operation on the pod.
    pub operation: ProtectedOperation,
    /// The user or object that makes the request.
    pub holder: String,
    /// Whether the pod serves now. A pod that does not serve costs nothing.
    pub is_available: bool,
    /// The generation of the pod, if the operation changes it.
    pub generation: Option<i64>,
    /// The containers that the operation replaces.
    pub container_ids: Vec<String>,
    /// Whether the operation restarts some of the containers to change their resources.
    pub resizes: bool,
    /// Whether the pod's own workload asks and no service is lost: [`Self::by_own_workload`].
    pub is_repair: bool,
    /// Whether no budget may refuse ([`crate::budget::disruption::passes`]). The ledger still gets
    /// an entry.
    pub passes: bool,
    /// The request's own name, if it may be released. It then never uses another's reservation.
    pub grant: Option<String>,
    /// Whether this process made the same reservation a moment ago, by its monotonic clock, so that
    /// the apiserver validates the same request again. An entry's time is from its writer's clock.
    pub is_again: bool,
}

impl Request {
    /// Marks the request as one of the pod's own workload. It takes nothing away from a pod that is
    /// unavailable and [down](Pod::is_down): budgets wait for pods to serve again, and this pod may
    /// never serve without the change.
    #[must_use]
    pub fn by_own_workload(self, pod: &Pod) -> Self {
        let is_repair =
            !self.is_available && self.operation != ProtectedOperation::Evict && pod.is_down();
        Self { is_repair, ..self }
    }

    /// Whether the request takes nothing from a budget, independent of the budget's numbers. A
    /// change of a pod that already has an entry gets its own entry.
    pub fn takes_nothing(&self, status: &PodUnavailableBudgetStatus) -> bool {
        let is_deletion = self.operation == ProtectedOperation::Delete;
        self.is_repair && (is_deletion || entries(status).all(|entry| entry.uid != self.uid))
    }
}

/// All entries of a status.
pub(super) fn entries(status: &PodUnavailableBudgetStatus) -> impl Iterator<Item = &LedgerEntry> {
    status.ledger.iter().flat_map(|ledger| &ledger.entries)
}

/// Whether an entry belongs to this request and may be released with it. If the pod has changed
/// since, the entry belongs to an earlier change and is settled by itself.
pub(super) fn is_of(entry: &LedgerEntry, request: &Request) -> bool {
    is_alike(entry, request) && entry.generation == request.generation
}

/// Whether an entry has the same pod, operation and grant name, for any change of the pod.
pub(super) fn is_alike(entry: &LedgerEntry, request: &Request) -> bool {
    entry.uid == request.uid && entry.operation == request.operation && entry.grant == request.grant
}

/// Whether an entry is that of the step before a restart, which takes the pod out of service for
/// its grace period. That step names no containers, and no generation will show it as made.
pub(super) fn begins_restart(entry: &LedgerEntry, request: &Request) -> bool {
    let is_restart = request.generation.is_none() && !request.container_ids.is_empty();
    is_restart
        && is_alike(entry, request)
        && entry.holder == request.holder
        && entry.container_ids.is_empty()
}
