//! Kubernetes' own budgets: the ones that ours keep, and those of others, which speak first.

use std::sync::Arc;

use berth_api::names::annotation::MIRROR_PDB;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_runtime::Object;
use berth_runtime::client;
use berth_webhook::pods::NotYet;
use berth_workload::budget::child::{Keeper, Without, keeps};
use berth_workload::budget::native::{NativeBudget, RefusedNatively, are_asked, refused};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::POD_DISRUPTION_BUDGETS;

use crate::budgets::{Budget, BudgetStores, PodBudgets};
use crate::stores::watched::{Watched, by_namespace};

/// The apiserver evicts no pod that so many hold.
const ENOUGH: usize = 2;

/// So many are read at most to find those. A namespace in which more were changed a moment ago is its author's to mend.
const MOST_READ: usize = 16;

/// Whether a budget asks for a native one.
pub(crate) fn is_mirrored(budget: &PodUnavailableBudget) -> bool {
    let annotations = budget.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(MIRROR_PDB))
        .is_some_and(|value| value == "true")
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
        let all: Vec<_> = self
            .in_namespace(namespace)
            .iter()
            .filter_map(|other| self.keeper(other))
            .collect();
        let Some(me) = all.iter().find(|keeper| keeper.uid == uid) else {
            return Err(Without::NotAsked);
        };
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
        let made = metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0.to_string())
            .unwrap_or_default();
        let key = budget.key();
        Some(Keeper {
            since: (made, key.resource.kind, key.key.name.to_string()),
            selector,
            uid: metadata.uid.clone().unwrap_or_default(),
        })
    }

    /// Why the apiserver would not evict a pod, whatever our budgets say: `None` if it would.
    ///
    /// Those that the store has are read anew, for each eviction changes them, and one by one: a list would wait until the apiserver's
    /// cache has caught up, and so would the apiserver's own right after it. One that the store lacks is the apiserver's to tell of;
    /// what is drawn for an eviction that it refuses expires.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub(in crate::budgets) async fn refused_natively(
        &self,
        stores: &BudgetStores,
        pod: &Pod,
    ) -> Result<Option<RefusedNatively>, NotYet> {
        if !are_asked(pod) {
            return Ok(None);
        }
        let mut stored = stores
            .natives
            .by_index(&by_namespace(), &pod.metadata.namespace);
        stored.retain(|native| native.0.selects(&pod.metadata));
        stored.sort_by(|one, other| one.name().cmp(other.name()));
        let mut natives = Vec::new();
        for native in stored.iter().take(MOST_READ) {
            natives.extend(
                self.native(native)
                    .await?
                    .filter(|native| native.selects(&pod.metadata)),
            );
            if natives.len() == ENOUGH {
                break;
            }
        }
        Ok(refused(pod, &natives))
    }

    /// A native budget as the apiserver has it; `None` where it is gone.
    async fn native(&self, native: &Watched<NativeBudget>) -> Result<Option<NativeBudget>, NotYet> {
        let Ok(path) = POD_DISRUPTION_BUDGETS.path(native.namespace(), native.name()) else {
            return Ok(None);
        };
        match client::get(&self.parts.client, &path).await {
            Ok(native) => Ok(Some(native)),
            Err(failed) if failed.is_not_found() => Ok(None),
            Err(_) => Err(NotYet("PodDisruptionBudgets")),
        }
    }
}
