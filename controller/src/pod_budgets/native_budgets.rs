//! Kubernetes' own budgets: the ones that ours keep, and those of others, which speak first.

use std::sync::Arc;

use berth_api::names::POLICY_GROUP;
use berth_api::names::annotation::MIRROR_PDB;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_runtime::client;
use berth_runtime::{Index, Object, Store};
use berth_webhook::pods::NotYet;
use berth_workload::budget::child::{Keeper, Without, keeps};
use berth_workload::native_budget::{Eviction, NativeBudget};
use berth_workload::pod::Pod;
use berth_workload::resource::POD_DISRUPTION_BUDGETS;
use serde::Deserialize;

use super::{Budget, PodBudgets};
use crate::reads::Read;
use crate::watched::Watched;

/// By namespace.
pub(crate) const BY_NAMESPACE: Index<Watched<NativeBudget>> =
    Index::new("namespace", |budget| Some(budget.namespace()));

impl Read for Watched<NativeBudget> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[BY_NAMESPACE])
    }
}

/// Whether a budget asks for a native one.
pub(crate) fn is_mirrored(budget: &PodUnavailableBudget) -> bool {
    let annotations = budget.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(MIRROR_PDB)).is_some_and(|value| value == "true")
}

/// Why the apiserver would not evict a pod.
pub(super) struct RefusedNatively {
    /// In words.
    pub(super) message: String,
    /// Whether the native budget is one that a budget of ours keeps.
    pub(super) is_ours: bool,
}

#[derive(Deserialize)]
struct List {
    items: Vec<NativeBudget>,
}

impl PodBudgets {
    /// Whether a budget is to keep a native one, beside these.
    pub(crate) fn keeps(
        &self,
        budget: &Budget,
        uid: &str,
        natives: &[Arc<Watched<NativeBudget>>],
    ) -> Result<(), Without> {
        let namespace = budget.metadata().namespace.as_deref().unwrap_or_default();
        let all: Vec<_> = self.in_namespace(namespace).iter().filter_map(|other| self.keeper(other)).collect();
        let Some(me) = all.iter().find(|keeper| keeper.uid == uid) else { return Err(Without::NotAsked) };
        let natives: Vec<_> = natives.iter().map(|native| &*native.0).collect();
        keeps(me, &all, &natives)
    }

    fn keeper(&self, budget: &Budget) -> Option<Keeper> {
        let metadata = budget.metadata();
        let asks = match budget {
            Budget::Distributed(_) => true,
            Budget::Unavailable(budget) => is_mirrored(budget),
        };
        let selector = self.holds(budget).selector().filter(|_| asks)?.clone();
        let made = metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
        let key = budget.key();
        Some(Keeper {
            since: (made, key.resource.kind, key.key.name.to_string()),
            selector,
            uid: metadata.uid.clone().unwrap_or_default(),
        })
    }

    /// Why the apiserver would not evict a pod, whatever our budgets say: `None` if it would. It is read anew, for each eviction changes
    /// it.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub(super) async fn refused_natively(&self, pod: &Pod) -> Result<Option<RefusedNatively>, NotYet> {
        // Of a pod that has not started no budget is asked there.
        if &*pod.status.phase == "Pending" {
            return Ok(None);
        }
        let Ok(path) = POD_DISRUPTION_BUDGETS.list(&pod.metadata.namespace, &[]) else { return Ok(None) };
        let Ok(list) = client::get::<List>(&self.client, &path).await else {
            return Err(NotYet("PodDisruptionBudgets"));
        };
        let holding: Vec<_> = list.items.iter().filter(|native| native.selects(&pod.metadata)).collect();
        let name = |native: &NativeBudget| {
            format!("PodDisruptionBudget {}/{}", native.metadata.namespace, native.metadata.name)
        };
        match holding.as_slice() {
            [] => Ok(None),
            [one] => {
                let (name, status) = (name(one), &one.status);
                let is_ours =
                    one.metadata.controller().is_some_and(|owner| owner.api_version.starts_with(POLICY_GROUP));
                let message = match one.on_eviction(pod) {
                    Eviction::Allowed => return Ok(None),
                    Eviction::NotCounted => {
                        format!("{name} was changed a moment ago, and its pods are not counted yet: try again")
                    }
                    Eviction::UsedUp => format!(
                        "{name} allows no more pods to go: {} of {} are healthy and {} must be; try again when more are",
                        status.current_healthy, status.expected_pods, status.desired_healthy
                    ),
                };
                Ok(Some(RefusedNatively { message, is_ours }))
            }
            [first, second, ..] => {
                let message = format!(
                    "{} and {} hold pod {}, and the apiserver evicts no pod that two of them hold: delete one, or give their selectors the same \
                 label with different values",
                    name(first),
                    name(second),
                    pod.metadata.name
                );
                Ok(Some(RefusedNatively { message, is_ours: false }))
            }
        }
    }
}
