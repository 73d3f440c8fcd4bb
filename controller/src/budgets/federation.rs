//! The contributions of the members of a federation: reads of the current state from the
//! apiservers, for reservations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_kinds::distributedpoddisruptionbudget::Other;
use berth_runtime::Key;
use berth_webhook::pods::NotYet;
use berth_workload::budget::federation::{Brings, MemberReport, Origin, Shared, Silence};
use berth_workload::budget::sharing::{Brought, Elsewhere, count_once};
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use futures::future::try_join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::budgets::clusters::find::ITSELF;
use crate::budgets::clusters::find::find;
use crate::budgets::clusters::{Clusters, Known};
use crate::budgets::{Budget, BudgetKey, PodBudgets};

/// How long one read of the members is enough for a decision that is repeated because another
/// writer changed the ledger.
const LATELY: Duration = Duration::from_secs(1);

/// A member of a federation as it was read, without regard to other budgets that hold its pods.
#[derive(Debug)]
struct Alone {
    /// Identifies the budget if it is in this cluster.
    origin: Origin,
    elsewhere: Elsewhere,
    brings: Result<Brings, Silence>,
}

/// The state of the members of a budget at the last read.
pub(in crate::budgets) struct Look {
    /// When the read began.
    since: Instant,
    members: Vec<Member>,
    alone: Vec<Alone>,
}

impl PodBudgets {
    /// The other clusters.
    pub(crate) fn clusters(&self) -> &Arc<Clusters> {
        &self.federation.clusters
    }

    /// The members that our budgets name, in this cluster and in others.
    pub(crate) fn named(&self) -> BTreeSet<Member> {
        let distributed = self
            .distributed()
            .map(|store| store.all())
            .unwrap_or_default();
        distributed
            .iter()
            .flat_map(|budget| budget.0.spec.federation.iter().cloned())
            .collect()
    }

    /// The contribution of each member of a budget now, by reads that no cache answers.
    ///
    /// # Errors
    /// Our own apiserver did not answer. If another cluster's did not, its budgets are silent.
    pub(crate) async fn others(
        &self,
        budget: &Budget,
    ) -> Result<Vec<Result<Brings, Silence>>, NotYet> {
        let alone = self.members_alone(budget, false).await?;
        Ok(self.together(budget, &alone))
    }

    /// As [`Self::others`], but reuses the last read if it is recent and of the same members. A
    /// grant needs a newer read.
    ///
    /// # Errors
    /// As [`Self::others`].
    pub(in crate::budgets) async fn members_lately(
        &self,
        budget: &Budget,
        last: &mut Option<Look>,
        is_dry_run: bool,
    ) -> Result<Vec<Result<Brings, Silence>>, NotYet> {
        let is_fresh =
            |look: &Look| look.since.elapsed() < LATELY && look.members == budget.federation();
        let look = match last.take().filter(is_fresh) {
            Some(look) => look,
            None => {
                let (since, members) = (Instant::now(), budget.federation().to_vec());
                Look {
                    since,
                    members,
                    alone: self.members_alone(budget, is_dry_run).await?,
                }
            }
        };
        let others = self.together(budget, &look.alone);
        *last = Some(look);
        Ok(others)
    }

    /// Reads each member of a budget; dry runs share one read a second.
    async fn members_alone(&self, budget: &Budget, is_dry_run: bool) -> Result<Vec<Alone>, NotYet> {
        let reads = budget.federation().iter().map(async |member| {
            if self.federation.clusters.has(member) {
                if let (Some(_), Budget::Distributed(budget)) = (self.parts.copies.as_ref(), budget)
                {
                    let brings = reported(budget, member).brings;
                    return Ok(Alone {
                        origin: Origin::default(),
                        elsewhere: Elsewhere::default(),
                        brings,
                    });
                }
                let Known {
                    elsewhere, brings, ..
                } = self.federation.clusters.read(member).await;
                return Ok(Alone {
                    origin: Origin::default(),
                    elsewhere,
                    brings,
                });
            }
            let elsewhere = Elsewhere::default();
            if budget.is_named_by(member) {
                return Ok(Alone {
                    origin: Origin::default(),
                    elsewhere,
                    brings: Err(Silence::of(ITSELF)),
                });
            }
            let unread = |_| NotYet("budgets of spec.federation");
            let read = async {
                find(&self.parts.client, member)
                    .await
                    .map(Arc::new)
                    .map_err(unread)
            };
            let found = if is_dry_run {
                self.federation
                    .members
                    .or(&format!("{member:?}"), read)
                    .await?
            } else {
                read.await?
            };
            let copy = found
                .kind
                .and_then(key_of(member))
                .and_then(|key| self.copied(&key));
            let brings = copy.map_or_else(
                || found.brings.clone(),
                |copy| Ok(Brings::of_account(&copy.account())),
            );
            Ok(Alone {
                origin: found.origin.clone(),
                elsewhere,
                brings,
            })
        });
        try_join_all(reads).await
    }

    /// The contribution of each member of a budget, without pods that are counted already. For
    /// members in this cluster, the leader's status says how many those are.
    fn together(&self, budget: &Budget, alone: &[Alone]) -> Vec<Result<Brings, Silence>> {
        let members = budget.federation();
        let is_here = |member: &Member| !self.federation.clusters.has(member);
        let bring = |((one, member), report): ((&Alone, &Member), MemberReport)| match &one.brings {
            Ok(brings) if is_here(member) => report.bring(&one.origin, *brings),
            as_read => as_read.clone(),
        };
        let mut all: Vec<_> = alone
            .iter()
            .zip(members)
            .zip(budget.member_reports(is_here))
            .map(bring)
            .collect();
        let brought = all.iter_mut().zip(alone).zip(members);
        let mut brought: Vec<_> = brought
            .map(|((brings, one), member)| Brought {
                member,
                elsewhere: &one.elsewhere,
                brings,
            })
            .collect();
        count_once(&mut brought);
        all
    }
}

/// The key of a member, if its kind is one of ours.
fn key_of(member: &Member) -> impl Fn(MemberKind) -> Option<BudgetKey> {
    let key = Key::new(&member.namespace, &member.name);
    move |kind| {
        let resource = match kind {
            MemberKind::DistributedPodDisruptionBudget => DISTRIBUTED_POD_DISRUPTION_BUDGETS,
            MemberKind::PodUnavailableBudget => POD_UNAVAILABLE_BUDGETS,
            MemberKind::PodDisruptionBudget => return None,
        };
        Some(BudgetKey {
            resource,
            key: key.clone(),
        })
    }
}

/// The state of a member in another cluster, by the status that the running controller wrote.
/// `explain` calls no other cluster.
pub(crate) fn reported(budget: &DistributedPodDisruptionBudget, member: &Member) -> Other {
    let status = budget
        .status
        .iter()
        .flat_map(|status| &status.federated_statuses)
        .find(|status| status.is_of(member));
    let number = |number: i32| usize::try_from(number).unwrap_or(0);
    let brings = match status {
        None => Err(Silence::of("was not asked yet")),
        Some(status) if status.reachable => Ok(Brings {
            healthy: number(status.healthy),
            expected: number(status.expected),
        }),
        Some(status) => Err(Silence {
            why: status.message.clone(),
            keeps: number(status.healthy),
        }),
    };
    let kind = status.and_then(|status| serde_json::from_value(json!(status.kind)).ok());
    let shared = status.map(|status| Shared {
        pods: number(status.shared),
        expected: number(status.shared_expected),
    });
    Other {
        kind,
        origin: Origin::default(),
        brings,
        shared: shared.unwrap_or_default(),
        last_read: None,
    }
}

#[cfg(test)]
mod tests;
