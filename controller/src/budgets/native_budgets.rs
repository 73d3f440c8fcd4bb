//! Kubernetes' own budgets: those that ours maintain, and those of other authors, which are checked
//! first.

use std::sync::Arc;

use berth_api::names::annotation::MIRROR_PDB;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_runtime::Object;
use berth_runtime::client;
use berth_webhook::pods::NotYet;
use berth_workload::budget::child::{Candidate, Without, keeps};
use berth_workload::budget::native::{NativeBudget, RefusedNatively, refused, review_evictions};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::POD_DISRUPTION_BUDGETS;

use crate::budgets::{Budget, BudgetStores, PodBudgets};
use crate::stores::watched::{Watched, by_namespace};

/// The apiserver evicts no pod that this many budgets hold.
const ENOUGH: usize = 2;

/// The most native budgets that are read to find those. If more of them changed a moment ago, the
/// author of the namespace has to mend that.
const MOST_READ: usize = 16;

/// Whether a budget asks for a native one.
pub(crate) fn is_mirrored(budget: &PodUnavailableBudget) -> bool {
    let annotations = budget.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(MIRROR_PDB))
        .is_some_and(|value| value == "true")
}

impl PodBudgets {
    /// Whether a budget is to maintain a native one, besides these.
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
            .filter_map(|other| self.candidate(other))
            .collect();
        let Some(me) = all.iter().find(|candidate| candidate.uid == uid) else {
            return Err(Without::NotRequested);
        };
        let natives: Vec<_> = natives.iter().map(|native| &*native.0).collect();
        keeps(me, &all, &natives)
    }

    fn candidate(&self, budget: &Budget) -> Option<Candidate> {
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
        Some(Candidate {
            since: (made, key.resource.kind, key.key.name.to_string()),
            selector,
            uid: metadata.uid.clone().unwrap_or_default(),
        })
    }

    /// Why the apiserver would not evict a pod, regardless of our budgets: `None` if it would.
    ///
    /// The budgets in the store are read again, because each eviction changes them. They are read
    /// one by one: a list would wait until the apiserver's cache has caught up, and so would the
    /// apiserver's own list right after it. A budget that the store lacks is left to the apiserver;
    /// the reservation for an eviction that it refuses expires.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub(in crate::budgets) async fn refused_natively(
        &self,
        stores: &BudgetStores,
        pod: &Pod,
    ) -> Result<Option<RefusedNatively>, NotYet> {
        if !review_evictions(pod) {
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

    /// A native budget as the apiserver has it; `None` if it is gone.
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
