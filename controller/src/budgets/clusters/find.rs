//! Reads one budget by its name, in this cluster or in another.

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_runtime::Resource;
use berth_runtime::client::{self, Failed};
use berth_workload::budget::federation::{Brings, Origin, Silence};
use berth_workload::budget::floor::{Promise, promised};
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::sharing::Held;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use kube::Client;
use serde::de::DeserializeOwned;

/// The most bytes of an object of a cluster. No object is larger, so a larger one is an attack.
pub(crate) const LARGEST: usize = 4 << 20;
/// The message about a member that does not exist.
pub(crate) const MISSING: &str = "does not exist: create it, or take it out of spec.federation";
/// The message about a member that is the same budget.
pub(crate) const ITSELF: &str = "is the budget itself: take it out of spec.federation";

/// A budget as an apiserver has it.
pub(crate) struct Found {
    /// Its kind; `None` if there is no budget of that name.
    pub(crate) kind: Option<MemberKind>,
    pub(crate) origin: Origin,
    /// Its pods.
    pub(crate) held: Option<Held>,
    pub(crate) brings: Result<Brings, Silence>,
    /// The number that may be counted on when it cannot be read any more.
    pub(crate) promise: Option<Promise>,
}

/// Reads a budget by its name, in the order of kinds that a member without a kind may be.
pub(crate) async fn find(client: &Client, member: &Member) -> Result<Found, Failed> {
    let kinds: &[_] = match &member.kind {
        Some(kind) => &[*kind],
        None => &[
            MemberKind::DistributedPodDisruptionBudget,
            MemberKind::PodDisruptionBudget,
        ],
    };
    for kind in kinds {
        if let Some(found) = find_of_kind(client, member, *kind).await? {
            return Ok(found);
        }
    }
    Ok(Found {
        kind: None,
        origin: Origin::default(),
        held: None,
        brings: Err(Silence::of(MISSING)),
        promise: None,
    })
}

async fn find_of_kind(
    client: &Client,
    member: &Member,
    kind: MemberKind,
) -> Result<Option<Found>, Failed> {
    let found = |origin, held, brings, promise| Found {
        kind: Some(kind),
        origin,
        held,
        brings,
        promise,
    };
    match kind {
        MemberKind::DistributedPodDisruptionBudget => {
            let read = get::<DistributedPodDisruptionBudget>(
                client,
                &DISTRIBUTED_POD_DISRUPTION_BUDGETS,
                member,
            );
            Ok(read.await?.map(|it| {
                let (origin, held) = (Origin::of(&it.metadata), Held::of_distributed(&it));
                found(
                    origin,
                    Some(held),
                    Brings::of_distributed(&it),
                    promised(&it),
                )
            }))
        }
        MemberKind::PodDisruptionBudget => {
            let read = get::<NativeBudget>(client, &POD_DISRUPTION_BUDGETS, member);
            Ok(read.await?.map(|it| {
                found(
                    Origin::of_native(&it),
                    Held::of_native(&it),
                    Brings::of_native(&it),
                    None,
                )
            }))
        }
        MemberKind::PodUnavailableBudget => {
            let read = get::<PodUnavailableBudget>(client, &POD_UNAVAILABLE_BUDGETS, member);
            Ok(read.await?.map(|it| {
                let (origin, held) = (Origin::of(&it.metadata), Held::of_unavailable(&it));
                found(origin, Some(held), Brings::of_unavailable(&it), None)
            }))
        }
    }
}

async fn get<T: DeserializeOwned>(
    client: &Client,
    resource: &Resource,
    member: &Member,
) -> Result<Option<T>, Failed> {
    let Ok(path) = resource.path(&member.namespace, &member.name) else {
        return Ok(None);
    };
    match client::get_within(client, &path, LARGEST).await {
        Ok(budget) => Ok(Some(budget)),
        Err(Failed { code: 404, .. }) => Ok(None),
        Err(failed) => Err(failed),
    }
}
