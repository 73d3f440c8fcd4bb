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

/// How often a request is tried again that crossed with another, after a while of at least and less than so many milliseconds.
const CROSSED_TRIES: usize = 3;
const CROSSED_LEAST: u64 = 50;
const CROSSED_MOST: u64 = 700;

/// What all budgets of a pod together say.
enum Together {
    Granted,
    /// One of them says no.
    Refused(Refusal),
    /// Each says yes, and budgets that name each other would have let too many go.
    Crossed(String),
}

/// Why a pod must stay.
pub(in crate::budgets) struct Refusal {
    /// The budget that has no room, where it is one.
    pub(in crate::budgets) by: Option<BudgetKey>,
    pub(in crate::budgets) message: String,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { by: None, message }
    }
}

impl PodBudgets {
    /// Draws from all of these budgets, which hold the pod; `Some` says why it must stay.
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
                    // Whoever crossed waits as well, and not as long.
                    let wait = fastrand::u64(CROSSED_LEAST..CROSSED_MOST);
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
            }
        }
    }

    /// Draws from each of these budgets, or from none.
    async fn reserve_from_each(
        &self,
        holding: &[BudgetKey],
        pod: &Arc<Pod>,
        request: &Request,
        is_dry_run: bool,
    ) -> Result<Together, NotYet> {
        let mut drawn = Vec::new();
        let refused = self
            .reserve_in_turn(holding, pod, request, is_dry_run, &mut drawn)
            .await;
        let together = match refused {
            Ok(None) => self.confirm_each(&drawn).await,
            Ok(Some(refusal)) => Ok(Together::Refused(refusal)),
            Err(not_yet) => Err(not_yet),
        };
        // A reservation whose write failed in doubt expires.
        if !matches!(together, Ok(Together::Granted)) {
            self.release(drawn).await;
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
        drawn: &mut Vec<(&'a BudgetKey, Request)>,
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
                // Nothing is written, so nothing is taken back or looked at again.
                Decision::Drawn | Decision::Passed(_) if is_dry_run => continue,
                Decision::Drawn => {
                    drawn.push((key, request));
                    continue;
                }
                Decision::Passed(shortage) => {
                    self.tell_of_passing(pod, &request, &shortage);
                    drawn.push((key, request));
                    continue;
                }
                Decision::Refused(_) | Decision::UsedUp(_)
                    if self.is_garbage_that_goes(pod, &request).await =>
                {
                    continue;
                }
                Decision::Refused(message) => message,
                Decision::UsedUp(message) => {
                    self.release(std::mem::take(drawn)).await;
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

    /// Reads the budgets again after all reservations: of two reservations that exclude each other, one sees the other.
    async fn confirm_each(&self, drawn: &[(&BudgetKey, Request)]) -> Result<Together, NotYet> {
        let confirmed = drawn
            .iter()
            .filter(|(_, request)| request.grant.is_some() && !request.passes);
        for (key, request) in confirmed {
            if let Some(message) = self.confirm(key, request).await? {
                return Ok(Together::Crossed(message));
            }
        }
        Ok(Together::Granted)
    }

    /// Where the pod's workload wants pods replaced before they go: has that noted, and gives what is told instead of the refusal.
    async fn replaced_first(
        &self,
        pod: &Pod,
        key: &BudgetKey,
        request: &Request,
        message: &str,
    ) -> Option<String> {
        match self.instead(pod, &key.words(), message).await? {
            Instead::First { told, deployment } => self
                .note_replacement(key, request, deployment.as_ref())
                .await
                .then_some(told),
            Instead::Never { told } => Some(told),
        }
    }

    /// What is told instead of a budget's refusal, by what the pod's workload wants.
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

    /// Takes back what was drawn for a request that is refused.
    async fn release(&self, drawn: Vec<(&BudgetKey, Request)>) {
        for (key, request) in drawn {
            self.withdraw(key, &request).await;
        }
    }
}

/// Whether what is drawn from a budget may be taken back: because of another budget that holds the pod, or of one that it names by now,
/// whatever the store has. Then each try has an entry of its own, for what is taken back must not be what another try stands on.
fn may_be_released(holding: &[BudgetKey], key: &BudgetKey) -> bool {
    holding.len() > 1 || key.resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS
}

#[cfg(test)]
mod tests;
