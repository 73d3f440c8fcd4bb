//! What the budgets that another names bring: as the apiserver has them, for whoever draws, and as stores have them, for the leader.

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_runtime::Resource;
use berth_runtime::client::{self, Failed};
use berth_webhook::pods::NotYet;
use berth_workload::budget::federation::{Brings, Silence};
use berth_workload::native_budget::NativeBudget;
use berth_workload::resource::{DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS};
use futures::future::try_join_all;
use kube::Client;
use serde::de::DeserializeOwned;

/// What is told of a member that is not there.
pub(crate) const MISSING: &str = "does not exist: create it, or take it out of spec.federation";

/// What each of these brings now, by reads that no cache answers.
///
/// # Errors
/// The apiserver did not answer.
pub(super) async fn read(
    client: &Client,
    members: &[Member],
    shared: &[usize],
) -> Result<Vec<Result<Brings, Silence>>, NotYet> {
    let reads = members.iter().enumerate().map(async |(at, member)| {
        let brings = match member.kind {
            Some(kind) => of_kind(client, member, kind).await?,
            None => match of_kind(client, member, MemberKind::DistributedPodDisruptionBudget).await? {
                Some(brings) => Some(brings),
                None => of_kind(client, member, MemberKind::PodDisruptionBudget).await?,
            },
        };
        let brings = brings.unwrap_or_else(|| Err(MISSING.to_owned()));
        Ok(brings.map(|brings| brings.without(shared.get(at).copied().unwrap_or(0))))
    });
    try_join_all(reads).await
}

async fn of_kind(
    client: &Client,
    member: &Member,
    kind: MemberKind,
) -> Result<Option<Result<Brings, Silence>>, NotYet> {
    match kind {
        MemberKind::DistributedPodDisruptionBudget => {
            let read = get::<DistributedPodDisruptionBudget>(client, &DISTRIBUTED_POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|budget| Brings::of_distributed(&budget)))
        }
        MemberKind::PodDisruptionBudget => {
            let read = get::<NativeBudget>(client, &POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|budget| Brings::of_native(&budget)))
        }
        MemberKind::PodUnavailableBudget => {
            let read = get::<PodUnavailableBudget>(client, &POD_UNAVAILABLE_BUDGETS, member);
            Ok(read.await?.map(|budget| Brings::of_unavailable(&budget)))
        }
    }
}

async fn get<T: DeserializeOwned>(client: &Client, resource: &Resource, member: &Member) -> Result<Option<T>, NotYet> {
    let Ok(path) = resource.path(&member.namespace, &member.name) else { return Ok(None) };
    match client::get(client, &path).await {
        Ok(budget) => Ok(Some(budget)),
        Err(Failed { code: 404, .. }) => Ok(None),
        Err(_) => Err(NotYet("budgets of spec.federation")),
    }
}
