//! What the budgets that another names bring: as the apiservers have them, for whoever draws.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_kinds::distributedpoddisruptionbudget::Other;
use berth_runtime::Resource;
use berth_runtime::client::{self, Failed};
use berth_webhook::pods::NotYet;
use berth_workload::budget::federation::{Brings, Silence};
use berth_workload::budget::floor::{Promise, promised};
use berth_workload::budget::sharing::{Brought, Elsewhere, Held, count_once};
use berth_workload::native_budget::NativeBudget;
use berth_workload::resource::{DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS};
use futures::future::try_join_all;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::{Budget, PodBudgets};
use crate::clusters::{Clusters, Known, LARGEST};

/// What is told of a member that is not there.
pub(crate) const MISSING: &str = "does not exist: create it, or take it out of spec.federation";
/// What is told of a member that is the budget which names it.
pub(crate) const ITSELF: &str = "is the budget itself: take it out of spec.federation";

/// So long one look at others is enough for whoever decides again about a ledger that somebody else has written meanwhile.
const LATELY: Duration = Duration::from_secs(1);

/// A budget as an apiserver has it.
pub(crate) struct Found {
    /// Its kind; `None` where there is none of that name.
    pub(crate) kind: Option<MemberKind>,
    /// Which pods.
    pub(crate) held: Option<Held>,
    pub(crate) brings: Result<Brings, Silence>,
    /// What may be counted on when it cannot be read any more.
    pub(crate) promise: Option<Promise>,
}

/// A budget of federation as it was read, whoever else holds its pods.
#[derive(Debug)]
struct Alone {
    elsewhere: Elsewhere,
    brings: Result<Brings, Silence>,
}

/// What those that a budget named had a moment ago.
pub(super) struct Look {
    /// When it began.
    since: Instant,
    members: Vec<Member>,
    alone: Vec<Alone>,
}

impl PodBudgets {
    /// The other clusters.
    pub(crate) fn clusters(&self) -> &Arc<Clusters> {
        &self.clusters
    }

    /// The budgets that ours name, in this cluster and in others.
    pub(crate) fn named(&self) -> BTreeSet<Member> {
        let distributed = self.distributed.get().map(|store| store.all()).unwrap_or_default();
        distributed.iter().flat_map(|budget| budget.0.spec.federation.iter().cloned()).collect()
    }

    /// What each of those that a budget names brings now, by reads that no cache answers.
    ///
    /// # Errors
    /// Our own apiserver did not answer. Where another cluster's did not, its budgets are silent.
    pub(crate) async fn others(&self, budget: &Budget) -> Result<Vec<Result<Brings, Silence>>, NotYet> {
        let alone = self.each_alone(budget).await?;
        Ok(self.together(budget, &alone))
    }

    /// The same by the last look, where that is of a moment ago and of the same members. Nothing may be granted by it.
    ///
    /// # Errors
    /// As [`Self::others`].
    pub(super) async fn others_lately(
        &self,
        budget: &Budget,
        last: &mut Option<Look>,
    ) -> Result<Vec<Result<Brings, Silence>>, NotYet> {
        let is_fresh = |look: &Look| look.since.elapsed() < LATELY && look.members == budget.federation();
        let look = match last.take().filter(is_fresh) {
            Some(look) => look,
            None => {
                let (since, members) = (Instant::now(), budget.federation().to_vec());
                Look { since, members, alone: self.each_alone(budget).await? }
            }
        };
        let others = self.together(budget, &look.alone);
        *last = Some(look);
        Ok(others)
    }

    /// Reads each of those that a budget names.
    async fn each_alone(&self, budget: &Budget) -> Result<Vec<Alone>, NotYet> {
        let reads = budget.federation().iter().map(async |member| {
            if self.clusters.has(member) {
                let Known { elsewhere, brings, .. } = self.clusters.read(member).await;
                return Ok(Alone { elsewhere, brings });
            }
            let elsewhere = Elsewhere::default();
            if budget.is_named_by(member) {
                return Ok(Alone { elsewhere, brings: Err(Silence::of(ITSELF)) });
            }
            let found = find(&self.client, member).await.map_err(|_| NotYet("budgets of spec.federation"))?;
            Ok(Alone { elsewhere, brings: found.brings })
        });
        try_join_all(reads).await
    }

    /// What each of those that a budget names brings, without pods that are counted already. Of those in this cluster the leader has told
    /// which.
    fn together(&self, budget: &Budget, alone: &[Alone]) -> Vec<Result<Brings, Silence>> {
        let (members, shared) = (budget.federation(), budget.shared());
        let here = |at: usize| members.get(at).is_some_and(|member| !self.clusters.has(member));
        let mut all: Vec<_> = alone.iter().map(|one| one.brings.clone()).collect();
        for (at, brings) in all.iter_mut().enumerate().filter(|(at, _)| here(*at)) {
            if let Ok(brings) = brings {
                *brings = brings.without(shared.get(at).copied().unwrap_or(0));
            }
        }
        let brought = all.iter_mut().zip(alone).zip(members);
        let mut brought: Vec<_> =
            brought.map(|((brings, one), member)| Brought { member, elsewhere: &one.elsewhere, brings }).collect();
        count_once(&mut brought);
        all
    }
}

/// Reads a budget by its name, in the order of kinds that a member without a kind may be.
pub(crate) async fn find(client: &Client, member: &Member) -> Result<Found, Failed> {
    let kinds: &[_] = match &member.kind {
        Some(kind) => &[*kind],
        None => &[MemberKind::DistributedPodDisruptionBudget, MemberKind::PodDisruptionBudget],
    };
    for kind in kinds {
        if let Some(found) = find_of_kind(client, member, *kind).await? {
            return Ok(found);
        }
    }
    Ok(Found { kind: None, held: None, brings: Err(Silence::of(MISSING)), promise: None })
}

async fn find_of_kind(client: &Client, member: &Member, kind: MemberKind) -> Result<Option<Found>, Failed> {
    let found = |held, brings, promise| Found { kind: Some(kind), held, brings, promise };
    match kind {
        MemberKind::DistributedPodDisruptionBudget => {
            let read = get::<DistributedPodDisruptionBudget>(client, &DISTRIBUTED_POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|it| found(Some(Held::of_distributed(&it)), Brings::of_distributed(&it), promised(&it))))
        }
        MemberKind::PodDisruptionBudget => {
            let read = get::<NativeBudget>(client, &POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|it| found(Held::of_native(&it), Brings::of_native(&it), None)))
        }
        MemberKind::PodUnavailableBudget => {
            let read = get::<PodUnavailableBudget>(client, &POD_UNAVAILABLE_BUDGETS, member);
            Ok(read.await?.map(|it| found(Some(Held::of_unavailable(&it)), Brings::of_unavailable(&it), None)))
        }
    }
}

async fn get<T: DeserializeOwned>(client: &Client, resource: &Resource, member: &Member) -> Result<Option<T>, Failed> {
    let Ok(path) = resource.path(&member.namespace, &member.name) else { return Ok(None) };
    match client::get_within(client, &path, LARGEST).await {
        Ok(budget) => Ok(Some(budget)),
        Err(Failed { code: 404, .. }) => Ok(None),
        Err(failed) => Err(failed),
    }
}

/// What the running controller has read of a budget in another cluster, and told. Whoever explains asks no other cluster.
pub(crate) fn told_of(budget: &DistributedPodDisruptionBudget, member: &Member) -> Other {
    let told = budget.status.iter().flat_map(|status| &status.federated_statuses).find(|told| told.is_of(member));
    let number = |number: i32| usize::try_from(number).unwrap_or(0);
    let brings = match told {
        None => Err(Silence::of("was not asked yet")),
        Some(told) if told.reachable => Ok(Brings { healthy: number(told.healthy), expected: number(told.expected) }),
        Some(told) => Err(Silence { why: told.message.clone(), keeps: number(told.healthy) }),
    };
    let kind = told.and_then(|told| serde_json::from_value(json!(told.kind)).ok());
    Other { kind, brings, shared: told.map_or(0, |told| number(told.shared)), last_read: None }
}
