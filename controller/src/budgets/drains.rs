//! The results of drains of nodes, for `explain` of a budget: all inputs are read first.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_runtime::Resource;
use berth_runtime::store::pods::{BY_NAMESPACE, BY_NODE};
use berth_webhook::pods::NotYet;
use berth_workload::budget::count::is_available;
use berth_workload::budget::drain::{
    self, Drain, EvictionDecision, Other, Place, Remainder, Resident,
};
use berth_workload::budget::federation::{MemberReport, Shared};
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::surge::Instead;
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use berth_workload::plan::Waiting;
use jiff::Timestamp;

use crate::budgets::federation::reported;
use crate::budgets::{Budget, BudgetStores, Holds, PodBudgets, UNREAD};
use crate::stores::watched::Watched;

/// All that drains depend on, read from one namespace.
pub(crate) struct Drains<'a> {
    by: &'a PodBudgets,
    stores: &'a BudgetStores,
    namespace: String,
    budgets: Vec<Known>,
    natives: Vec<NativeBudget>,
    /// The index of the budget that is explained.
    explained: usize,
}

/// A budget, and the numbers that were read for it.
struct Known {
    name: String,
    budget: Budget,
    holds: Arc<Holds>,
    total: Option<usize>,
    others: Vec<Other>,
}

impl PodBudgets {
    /// Reads what drains depend on, besides these native budgets of the namespace; `None` if the
    /// budget holds no pods any more.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub(crate) async fn drains(
        &self,
        of: &Budget,
        natives: &[Arc<Watched<NativeBudget>>],
    ) -> Result<Option<Drains<'_>>, NotYet> {
        let stores = self.parts.stores.as_ref().ok_or(UNREAD)?;
        let namespace = of.metadata().namespace.clone().unwrap_or_default();
        let natives: Vec<_> = natives.iter().map(|native| (*native.0).clone()).collect();
        let mut all = self.in_namespace(&namespace);
        all.sort_by_key(Budget::key);
        let Some(explained) = all.iter().position(|budget| budget.key() == of.key()) else {
            return Ok(None);
        };
        let mut budgets = Vec::new();
        for budget in &all {
            let holds = self.holds(budget);
            let total = self.total(budget, &holds).await;
            let others = self.others_of_drain(budget, &all, &natives).await?;
            budgets.push(Known {
                name: budget.key().words(),
                budget: budget.clone(),
                holds,
                total,
                others,
            });
        }
        Ok(Some(Drains {
            by: self,
            stores,
            namespace,
            budgets,
            natives,
            explained,
        }))
    }

    /// The contributions of the members of a budget; for other clusters, by the status that the
    /// running controller wrote.
    async fn others_of_drain(
        &self,
        budget: &Budget,
        all: &[Budget],
        natives: &[NativeBudget],
    ) -> Result<Vec<Other>, NotYet> {
        let reports = budget.member_reports(|member| !self.federation.clusters.has(member));
        let read = self
            .others(budget)
            .await?
            .into_iter()
            .zip(reports)
            .zip(budget.federation());
        let others = read.map(
            |((brings, MemberReport { shared, .. }), member)| match budget {
                Budget::Distributed(budget) if self.federation.clusters.has(member) => Other {
                    brings: reported(budget, member).brings,
                    shared: Shared::default(),
                    place: None,
                },
                _ if budget.metadata().namespace.as_ref() == Some(&member.namespace) => Other {
                    brings,
                    shared,
                    place: place(member, all, natives),
                },
                _ => Other {
                    brings,
                    shared,
                    place: None,
                },
            },
        );
        Ok(others.collect())
    }
}

/// The index of a member in these lists of its namespace.
fn place(member: &Member, all: &[Budget], natives: &[NativeBudget]) -> Option<Place> {
    let ours = |resource: Resource| {
        let is_it = |budget: &Budget| {
            let key = budget.key();
            key.resource == resource && *key.key.name == *member.name
        };
        all.iter().position(is_it).map(Place::Ours)
    };
    let native = || {
        natives
            .iter()
            .position(|native| *native.metadata.name == *member.name)
            .map(Place::Native)
    };
    match member.kind {
        None => ours(DISTRIBUTED_POD_DISRUPTION_BUDGETS).or_else(native),
        Some(MemberKind::DistributedPodDisruptionBudget) => {
            ours(DISTRIBUTED_POD_DISRUPTION_BUDGETS)
        }
        Some(MemberKind::PodUnavailableBudget) => ours(POD_UNAVAILABLE_BUDGETS),
        Some(MemberKind::PodDisruptionBudget) => native(),
    }
}

impl Drains<'_> {
    /// The results of one round of a drain of a node, for each pod of the budget there.
    pub(crate) async fn of_node(&self, node: &str) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for (pod, decision) in self.round(node, Timestamp::now()) {
            if self.is_explained(&pod) {
                let reason = self.words(&pod, decision).await;
                waiting.push(Waiting {
                    pod: pod.metadata.name.to_string(),
                    reason,
                });
            }
        }
        waiting
    }

    /// Which of the nodes of its pods could be drained now, as sentences.
    pub(crate) fn of_nodes(&self) -> Vec<String> {
        let all = self.stores.pods.by_index(&BY_NAMESPACE, &self.namespace);
        let names = all
            .iter()
            .filter(|pod| self.is_explained(pod))
            .map(|pod| &*pod.spec.node_name);
        let nodes: BTreeSet<&str> = names
            .filter(|node| self.stores.nodes.get("", node).is_some())
            .collect();
        let now = Timestamp::now();
        let left = nodes.into_iter().map(|node| {
            let of_budget = self
                .round(node, now)
                .into_iter()
                .filter(|(pod, _)| self.is_explained(pod));
            let decisions: Vec<_> = of_budget.map(|(_, decision)| decision).collect();
            let refused = decisions
                .iter()
                .filter(|decision| decision.is_refusal())
                .count();
            Remainder {
                node: node.to_owned(),
                pods: decisions.len(),
                refused,
            }
        });
        drain::drainable(&left.collect::<Vec<_>>())
    }

    /// All pods of the namespace on a node, in the order in which a drain evicts them, each with
    /// its result.
    fn round(&self, node: &str, now: Timestamp) -> Vec<(Arc<Pod>, EvictionDecision)> {
        let mut pods = self.stores.pods.by_index(&BY_NODE, node);
        pods.retain(|pod| *pod.metadata.namespace == *self.namespace);
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let residents: Vec<_> = pods.iter().map(|pod| self.resident(pod, now)).collect();
        let decisions = self.drain().round(&residents, now);
        pods.iter().cloned().zip(decisions).collect()
    }

    fn resident<'p>(&self, pod: &'p Pod, now: Timestamp) -> Resident<'p> {
        let holding = self
            .budgets
            .iter()
            .enumerate()
            .filter(|(_, known)| known.holds.holds(&pod.metadata));
        Resident {
            pod,
            is_available: is_available(pod, true, now),
            holding: holding.map(|(at, _)| at).collect(),
        }
    }

    fn drain(&self) -> Drain<'_> {
        let budgets = self.budgets.iter().map(|known| {
            let account = known.budget.as_judged(&known.name, &known.holds);
            let webhook_calls =
                match WebhookCalls::of(&[ProtectedOperation::Evict], self.by.settings.gates) {
                    WebhookCalls::Never(why) => WebhookCalls::Never(why),
                    _ => WebhookCalls::from_conditions(&account.status.conditions),
                };
            drain::Budget {
                account,
                total: known.total,
                others: known.others.clone(),
                webhook_calls,
            }
        });
        Drain {
            budgets: budgets.collect(),
            natives: self.natives.clone(),
            reported: self.explained,
        }
    }

    /// Whether a pod belongs to the budget that is explained.
    fn is_explained(&self, pod: &Pod) -> bool {
        self.budgets[self.explained].holds.selects(&pod.metadata)
    }

    /// The result for a pod, as a sentence. If the budget has no capacity, the pod's workload may
    /// make a replacement first.
    async fn words(&self, pod: &Pod, decision: EvictionDecision) -> String {
        let EvictionDecision::UsedUp { budget, message } = &decision else {
            return decision.words();
        };
        match self
            .by
            .instead(pod, &self.budgets[*budget].name, message)
            .await
        {
            Some(Instead::First { message, .. } | Instead::Never { message }) => {
                EvictionDecision::Refused(message).words()
            }
            None => decision.words(),
        }
    }
}
