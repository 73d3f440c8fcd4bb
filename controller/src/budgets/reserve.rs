//! From one request to a grant of all budgets that hold the pod, or of none.

use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_webhook::pods::NotYet;
use berth_workload::budget::judge::{Decision, kept};
use berth_workload::budget::ledger::Request;
use berth_workload::budget::surge::{Instead, is_released};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::DISTRIBUTED_POD_DISRUPTION_BUDGETS;

use crate::budgets::catalog::holding::Holding;
use crate::budgets::{BudgetKey, PodBudgets};

/// How often a request is tried again that crossed with another one. Between two tries it waits for
/// a random time, of at least and less than these numbers of milliseconds.
const CROSSED_TRIES: usize = 3;
const CROSSED_LEAST: u64 = 50;
const CROSSED_MOST: u64 = 700;

/// The common answer of all budgets of a pod.
enum Together {
    Granted,
    /// One of them refuses.
    Refused(Refusal),
    /// Each grants, but together budgets that name each other would have let too many pods go.
    Crossed(String),
}

/// Why a pod must stay.
pub(in crate::budgets) struct Refusal {
    /// The budget that refuses, if it is one.
    pub(in crate::budgets) by: Option<BudgetKey>,
    pub(in crate::budgets) message: String,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { by: None, message }
    }
}

impl PodBudgets {
    /// Reserves from all of these budgets, which hold the pod; `Some` says why it must stay.
    pub(in crate::budgets) async fn reserve(
        &self,
        pod: &Arc<Pod>,
        Holding {
            keys: holding,
            unreadable,
        }: &Holding,
        request: &Request,
        is_dry_run: bool,
    ) -> Result<Option<Refusal>, NotYet> {
        let counts_others = holding
            .iter()
            .any(|budget| budget.resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS);
        let why = unreadable
            .clone()
            .or_else(|| kept(&pod.metadata, holding.len(), counts_others));
        match why {
            Some(why) if request.passes => {
                if !is_dry_run {
                    self.tell_of_passing(pod, request, &why);
                }
                return Ok(None);
            }
            Some(why) => return Ok(Some(why.into())),
            None => {}
        }
        let mut tries = 0;
        loop {
            match self
                .reserve_from_each(holding, pod, request, is_dry_run)
                .await?
            {
                Together::Granted => return Ok(None),
                Together::Refused(refusal) => return Ok(Some(refusal)),
                Together::Crossed(message) if tries >= CROSSED_TRIES => {
                    return Ok(Some(message.into()));
                }
                Together::Crossed(_) => {
                    tries += 1;
                    // The request that crossed with this one waits as well, for another random
                    // time.
                    let wait = fastrand::u64(CROSSED_LEAST..CROSSED_MOST);
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
            }
        }
    }

    /// Reserves from each of these budgets, or from none.
    async fn reserve_from_each(
        &self,
        holding: &[BudgetKey],
        pod: &Arc<Pod>,
        request: &Request,
        is_dry_run: bool,
    ) -> Result<Together, NotYet> {
        let mut reserved = Vec::new();
        let refused = self
            .reserve_in_turn(holding, pod, request, is_dry_run, &mut reserved)
            .await;
        let together = match refused {
            Ok(None) => self.confirm_each(&reserved).await,
            Ok(Some(refusal)) => Ok(Together::Refused(refusal)),
            Err(not_yet) => Err(not_yet),
        };
        // If it is unknown whether a reservation was written, it expires.
        if !matches!(together, Ok(Together::Granted)) {
            self.release(reserved).await;
        }
        together
    }

    /// Reserves from one budget after another, up to the first that refuses.
    async fn reserve_in_turn<'a>(
        &self,
        holding: &'a [BudgetKey],
        pod: &Arc<Pod>,
        request: &Request,
        is_dry_run: bool,
        reserved: &mut Vec<(&'a BudgetKey, Request)>,
    ) -> Result<Option<Refusal>, NotYet> {
        for key in holding {
            let grant =
                may_be_released(holding, key).then(|| format!("{:016x}", fastrand::u64(..)));
            let request = Request {
                grant,
                ..request.clone()
            };
            let (decision, request) = self.reserve_one(key, pod, request, is_dry_run).await?;
            let message = match decision {
                Decision::Free => continue,
                // A dry run writes nothing, so there is nothing to release or to confirm.
                Decision::Reserved | Decision::Passed(_) if is_dry_run => continue,
                Decision::Reserved => {
                    reserved.push((key, request));
                    continue;
                }
                Decision::Passed(shortage) => {
                    self.tell_of_passing(pod, &request, &shortage);
                    reserved.push((key, request));
                    continue;
                }
                Decision::Refused(_) | Decision::UsedUp(_)
                    if self.is_garbage_that_goes(pod, &request).await =>
                {
                    continue;
                }
                Decision::Refused(message) => message,
                Decision::UsedUp(message) => {
                    self.release(std::mem::take(reserved)).await;
                    let is_eviction = request.operation == ProtectedOperation::Evict && !is_dry_run;
                    let first = if is_eviction {
                        self.replaced_first(pod, key, &request, &message).await
                    } else {
                        None
                    };
                    first.unwrap_or(message)
                }
            };
            return Ok(Some(Refusal {
                by: Some(key.clone()),
                message,
            }));
        }
        Ok(None)
    }

    /// Reads the budgets again after all reservations: of two reservations that exclude each other,
    /// one sees the other.
    async fn confirm_each(&self, reserved: &[(&BudgetKey, Request)]) -> Result<Together, NotYet> {
        let confirmed = reserved
            .iter()
            .filter(|(_, request)| request.grant.is_some() && !request.passes);
        for (key, request) in confirmed {
            if let Some(message) = self.confirm(key, request).await? {
                return Ok(Together::Crossed(message));
            }
        }
        Ok(Together::Granted)
    }

    /// If the pod's workload wants replacements before pods go, notes that in the ledger. Returns
    /// the message that replaces the refusal.
    async fn replaced_first(
        &self,
        pod: &Pod,
        key: &BudgetKey,
        request: &Request,
        message: &str,
    ) -> Option<String> {
        match self.instead(pod, &key.words(), message).await? {
            Instead::First {
                message,
                deployment,
            } => self
                .note_replacement(key, request, deployment.as_ref())
                .await
                .then_some(message),
            Instead::Never { message } => Some(message),
        }
    }

    /// The message in place of a budget's refusal, by what the pod's workload wants.
    pub(in crate::budgets) async fn instead(
        &self,
        pod: &Pod,
        budget: &str,
        refusal: &str,
    ) -> Option<Instead> {
        if is_released(&pod.metadata) {
            return Some(Instead::of_released(budget));
        }
        let owner = pod.metadata.controller()?;
        let (kind, top) = self
            .expected
            .wanted
            .apart()
            .top_object(&pod.metadata.namespace, owner)
            .await?;
        Instead::of(&pod.metadata, (&kind, &top), budget, refusal)
    }

    /// Releases the reservations of a request that is refused.
    async fn release(&self, reserved: Vec<(&BudgetKey, Request)>) {
        for (key, request) in reserved {
            self.release_one(key, &request).await;
        }
    }
}

/// Whether a reservation from this budget may have to be released: because another budget holds the
/// pod, or because of a member that the budget names by now, even if the store does not show it.
/// Then each try has an entry of its own, so that a release never removes the entry of another try.
fn may_be_released(holding: &[BudgetKey], key: &BudgetKey) -> bool {
    holding.len() > 1 || key.resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS
}

#[cfg(test)]
mod tests;
