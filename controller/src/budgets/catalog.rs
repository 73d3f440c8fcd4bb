//! Which budgets of a namespace count, and which namespaces have budgets.

pub(in crate::budgets) mod holding;
mod uncached;

use std::collections::BTreeMap;

use berth_api::v1alpha1::distributedpoddisruptionbudget::UnhealthyPodEvictionPolicy;
use berth_api::v1beta1::podunavailablebudget::UnhealthyPodPolicy;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use berth_workload::share;
use jiff::Timestamp;

use crate::budgets::{Budget, BudgetKey, PodBudgets};
use crate::stores::watched::by_namespace;

impl PodBudgets {
    /// The budgets of a namespace that hold pods: the oldest of each kind.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Budget> {
        let kinds = [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS];
        kinds
            .map(|resource| self.counting(resource, namespace))
            .concat()
    }

    /// Wakes the budgets of a kind that may hold the pod; false if there is none.
    pub(crate) fn wake_holders(&self, resource: Resource, pod: &Pod, queue: &Queue<Key>) -> bool {
        let namespace = &pod.metadata.namespace;
        let mut holders = self.counting(resource, namespace);
        holders.retain(|budget| self.holds(budget).may_select(&pod.metadata));
        let is_held = !holders.is_empty();
        if is_held {
            holders
                .into_iter()
                .for_each(|budget| queue.add(budget.key().key));
            self.note_change(namespace);
        }
        is_held
    }

    /// The budgets of one kind that hold pods.
    pub(crate) fn counting(&self, resource: Resource, namespace: &str) -> Vec<Budget> {
        let mut all = self.of_kind(resource, namespace);
        share::keep_oldest(&mut all, Budget::age);
        all
    }

    /// The budgets of a kind and a namespace that still hold pods.
    fn of_kind(&self, resource: Resource, namespace: &str) -> Vec<Budget> {
        let mut all: Vec<_> = if resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS {
            let by = &by_namespace();
            let found = self
                .distributed()
                .map(|store| store.by_index(by, namespace))
                .unwrap_or_default();
            found
                .iter()
                .map(|budget| Budget::Distributed(budget.0.clone()))
                .collect()
        } else {
            let by = &by_namespace();
            let found = self
                .unavailable()
                .map(|store| store.by_index(by, namespace))
                .unwrap_or_default();
            found
                .iter()
                .map(|budget| Budget::Unavailable(budget.0.clone()))
                .collect()
        };
        all.retain(|budget| !budget.is_over());
        all
    }

    /// Why a budget holds no pod, if its namespace has too many older ones. A budget that is being
    /// deleted reports other causes.
    pub(crate) fn beyond(&self, budget: &Budget) -> Option<String> {
        let BudgetKey { resource, key } = budget.key();
        let all = self.of_kind(resource, &key.namespace);
        let is_going = budget.metadata().deletion_timestamp.is_some();
        let is_beyond = !is_going && share::is_beyond(&budget.age(), all.iter().map(Budget::age));
        is_beyond.then(|| share::beyond(resource.kind, &key.namespace, &key.name, "holds no pod"))
    }

    /// The budget that may start to count after a change, because one that ends makes room.
    pub(crate) fn comes_to_count(
        &self,
        resource: Resource,
        change: &Change<impl Object>,
    ) -> Option<Key> {
        let ends = match change {
            Change::Deleted { old } => Some(old),
            Change::Applied { new, .. } => Some(new).filter(|new| new.terminating()),
            Change::Synced => None,
        };
        self.last_that_counts(resource, ends?.namespace())
    }

    /// The youngest budget of a kind that counts in a namespace, if there may be others: it may
    /// count only since an older one ended.
    pub(in crate::budgets) fn last_that_counts(
        &self,
        resource: Resource,
        namespace: &str,
    ) -> Option<Key> {
        let all = self.counting(resource, namespace);
        let last = all
            .iter()
            .max_by_key(|budget| budget.age())
            .filter(|_| all.len() >= share::MOST)?;
        Some(last.key().key)
    }

    /// The namespaces with budgets, except protected ones, each with whether one of its budgets
    /// holds pods that are not ready. Older namespaces come first, so that a later one takes no
    /// place from them.
    pub(in crate::budgets) fn namespaces_of_budgets(&self) -> Vec<(String, bool)> {
        let unavailable = self
            .unavailable()
            .map(|store| store.all())
            .unwrap_or_default();
        let distributed = self
            .distributed()
            .map(|store| store.all())
            .unwrap_or_default();
        let unavailable = unavailable.iter().map(|budget| {
            let holds_unready =
                budget.0.spec.unhealthy_pod_policy == UnhealthyPodPolicy::IfHealthyBudget;
            (
                budget.namespace(),
                budget.0.metadata.creation_timestamp.as_ref(),
                holds_unready,
            )
        });
        let distributed = distributed.iter().map(|budget| {
            let policy = &budget.0.spec.unhealthy_pod_eviction_policy;
            let holds_unready = *policy == UnhealthyPodEvictionPolicy::IfHealthyBudget;
            (
                budget.namespace(),
                budget.0.metadata.creation_timestamp.as_ref(),
                holds_unready,
            )
        });
        let mut namespaces: BTreeMap<&str, (Option<Timestamp>, bool)> = BTreeMap::new();
        for (namespace, since, holds_unready) in unavailable.chain(distributed) {
            if self.settings.protected.contains(namespace) {
                continue;
            }
            let since = since.map(|time| time.0);
            let known = namespaces.entry(namespace).or_insert((since, false));
            *known = (since.min(known.0), known.1 || holds_unready);
        }
        let mut namespaces: Vec<_> = namespaces.into_iter().collect();
        namespaces.sort_by_key(|(_, (since, _))| *since);
        namespaces
            .into_iter()
            .map(|(namespace, (_, unready))| (namespace.to_owned(), unready))
            .collect()
    }
}
