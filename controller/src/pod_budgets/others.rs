//! What the budgets that another names bring: as the apiservers have them, for whoever draws.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_runtime::Resource;
use berth_runtime::client::{self, Failed};
use berth_webhook::pods::NotYet;
use berth_workload::budget::federation::{Brings, Silence};
use berth_workload::budget::floor::{Promise, promised};
use berth_workload::native_budget::NativeBudget;
use berth_workload::resource::{DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS};
use futures::future::try_join_all;
use kube::Client;
use serde::de::DeserializeOwned;

use super::{Budget, PodBudgets};
use crate::clusters::{Clusters, LARGEST};

/// What is told of a member that is not there.
pub(crate) const MISSING: &str = "does not exist: create it, or take it out of spec.federation";
/// What is told of a member that is the budget which names it.
pub(crate) const ITSELF: &str = "is the budget itself: take it out of spec.federation";

/// A budget as an apiserver has it.
pub(crate) struct Found {
    /// Its kind; `None` where there is none of that name.
    pub(crate) kind: Option<MemberKind>,
    pub(crate) brings: Result<Brings, Silence>,
    /// What may be counted on when it cannot be read any more.
    pub(crate) promise: Option<Promise>,
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
        let shared = budget.shared();
        let reads = budget.federation().iter().enumerate().map(async |(at, member)| {
            if self.clusters.has(member) {
                return Ok(self.clusters.read(member).await.brings);
            }
            if budget.is_named_by(member) {
                return Ok(Err(Silence::of(ITSELF)));
            }
            let found = find(&self.client, member).await.map_err(|_| NotYet("budgets of spec.federation"))?;
            Ok(found.brings.map(|brings| brings.without(shared.get(at).copied().unwrap_or(0))))
        });
        try_join_all(reads).await
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
    Ok(Found { kind: None, brings: Err(Silence::of(MISSING)), promise: None })
}

async fn find_of_kind(client: &Client, member: &Member, kind: MemberKind) -> Result<Option<Found>, Failed> {
    let found = |brings, promise| Found { kind: Some(kind), brings, promise };
    match kind {
        MemberKind::DistributedPodDisruptionBudget => {
            let read = get::<DistributedPodDisruptionBudget>(client, &DISTRIBUTED_POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|budget| found(Brings::of_distributed(&budget), promised(&budget))))
        }
        MemberKind::PodDisruptionBudget => {
            let read = get::<NativeBudget>(client, &POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|budget| found(Brings::of_native(&budget), None)))
        }
        MemberKind::PodUnavailableBudget => {
            let read = get::<PodUnavailableBudget>(client, &POD_UNAVAILABLE_BUDGETS, member);
            Ok(read.await?.map(|budget| found(Brings::of_unavailable(&budget), None)))
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
