//! How many pods the workloads of a budget want now.

use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_workload::budget::count::{Expected, View};
use berth_workload::budget::expected::recheck_delay;
use berth_workload::budget::ledger::Request;
use berth_workload::budget::surge::is_released;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::time::Instant;

use crate::budgets::expected_pods::recent::MOMENT;
use crate::budgets::expected_pods::{ExpectedPods, Uncounted, Workloads};
use crate::budgets::{Budget, Holds, PodBudgets, views};

impl PodBudgets {
    /// Whether the request deletes the pod because its workload goes. No budget holds such a pod.
    pub(in crate::budgets) async fn is_garbage_that_goes(
        &self,
        pod: &Pod,
        request: &Request,
    ) -> bool {
        request.operation == ProtectedOperation::Delete && self.is_garbage(pod).await
    }

    /// Whether the pod goes because its workload goes.
    async fn is_garbage(&self, pod: &Pod) -> bool {
        // A pod that was released from its ReplicaSet still goes with its Deployment.
        let owner = match pod.metadata.controller() {
            None if is_released(&pod.metadata) => pod
                .metadata
                .owner_references
                .iter()
                .find(|owner| &*owner.kind == "Deployment"),
            owner => owner,
        };
        let Some(owner) = owner else { return false };
        // Reads anew: by a cached answer a pod would stay although its workload has just gone.
        self.expected
            .wanted
            .apart()
            .is_gone(&pod.metadata.namespace, owner)
            .await
    }

    /// How many pods are expected now, read when the written ledger refuses a request; `None` if
    /// that is not known. It is not known if this replica has not read the pods, or only older ones
    /// than the last count. Workloads of pods that it has not seen would be left out, and pods
    /// could go that the budget holds.
    pub(in crate::budgets) async fn total(&self, budget: &Budget, holds: &Holds) -> Option<usize> {
        if let Some(total) = holds.rules.as_ref().ok().and_then(|rules| rules.total) {
            return Some(total);
        }
        let all = if budget.is_by_target() {
            Vec::new()
        } else {
            let namespace = budget.metadata().namespace.as_deref().unwrap_or_default();
            views::pods_of_count(
                &self.parts.stores.as_ref()?.pods,
                namespace,
                budget.account().ledger.as_ref(),
            )?
        };
        self.wanted_by(&self.expected.wanted, budget, holds, &all)
            .await
            .map(|expected| expected.total)
            .ok()
    }

    /// How many pods the workload of a budget wants, or else the workloads of its pods among all
    /// pods of its namespace. For a count.
    pub(crate) async fn wanted(
        &self,
        budget: &Budget,
        holds: &Holds,
        all: &[Arc<Pod>],
    ) -> Result<Expected, Uncounted> {
        self.wanted_by(&self.expected.counted, budget, holds, all)
            .await
    }

    async fn wanted_by(
        &self,
        expected: &ExpectedPods,
        budget: &Budget,
        holds: &Holds,
        all: &[Arc<Pod>],
    ) -> Result<Expected, Uncounted> {
        let namespace = budget.metadata().namespace.as_deref().unwrap_or_default();
        if let Budget::Unavailable(budget) = budget
            && let Some(target) = &budget.spec.target_ref
        {
            return expected.of_target(namespace, target).await;
        }
        let members = all.iter().filter(|pod| holds.holds(&pod.metadata)).cloned();
        // Released pods exist until they are deleted; their ReplicaSet has others in their place,
        // or will soon.
        let (released, members): (Vec<_>, Vec<_>) =
            members.partition(|pod| is_released(&pod.metadata));
        let total = expected.of_owners(namespace, &members).await?;
        Ok(Expected {
            total: total.max(released.len()),
            selector: None,
        })
    }

    /// How many pods workloads want, with one read for each workload.
    pub(crate) fn workloads(&self) -> Workloads<'_> {
        Workloads::new(&self.expected.counted)
    }

    /// Notes that pods of a namespace changed that budgets hold.
    pub(crate) fn note_change(&self, namespace: &str) {
        let mut changed = self.expected.changed.lock();
        changed.retain(|_, since| since.elapsed() < MOMENT);
        changed.insert(namespace.to_owned(), Instant::now());
    }

    /// When the workloads of a counted budget are read again at the latest.
    pub(crate) fn recheck_delay(
        &self,
        budget: &Budget,
        view: &View,
        conditions: &[Condition],
    ) -> Duration {
        let rules = &self.holds(budget).rules;
        let is_known = rules
            .as_ref()
            .is_ok_and(|rules| view.expected_by(rules).is_ok());
        recheck_delay(is_known, conditions, Timestamp::now())
    }

    /// The time until the next count of a budget in this namespace. It is shorter after a change of
    /// pods, because the last count may have used what workloads said before the change.
    pub(crate) fn counted_again(&self, namespace: &str, soon: Duration) -> Duration {
        let changed = self.expected.changed.lock();
        match changed.get(namespace) {
            Some(since) if since.elapsed() < MOMENT => soon.min(MOMENT),
            _ => soon,
        }
    }
}
