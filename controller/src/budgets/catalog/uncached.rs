//! Which budgets hold a pod: those in the stores, and those that the apiserver has and the stores
//! of this replica lack. So all replicas give the same answer, even about a budget that was just
//! made.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::weight::{Limits, without_managed_fields};
use berth_runtime::client::{self, metadata};
use berth_runtime::{Key, Resource};
use berth_webhook::pods::NotYet;
use berth_workload::objects::pod::Metadata;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use berth_workload::objects::selector::Selector;
use berth_workload::share;
use futures::future::{join_all, try_join};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::budgets::catalog::holding::{Held, Holding, Looked, Uncached};
use crate::budgets::{Budget, BudgetKey, Holds, PodBudgets, UNREAD};

/// The most budgets missing in the stores that are read one by one. A replica that lacks more has
/// fallen behind, and says so.
const MOST: usize = 16;

impl PodBudgets {
    /// The budgets that hold a pod.
    ///
    /// # Errors
    /// The apiserver did not say which there are, or this replica has fallen behind.
    pub(in crate::budgets) async fn holding(&self, pod: &Metadata) -> Result<Holding, NotYet> {
        Ok(self.holding_with(pod, &*self.unseen(&pod.namespace).await?))
    }

    /// As [`Self::holding`], with the budgets that the stores lack.
    pub(in crate::budgets) fn holding_with(
        &self,
        pod: &Metadata,
        Uncached(unseen): &Uncached,
    ) -> Holding {
        let all = self.in_namespace(&pod.namespace);
        let stored = all
            .iter()
            .filter(|budget| self.holds(budget).holds(pod))
            .map(Budget::key);
        let holds = |(key, held): &(BudgetKey, Held)| {
            matches!(held, Held::By(holds) if holds.holds(pod)).then(|| key.clone())
        };
        let mut keys: Vec<_> = stored.chain(unseen.iter().filter_map(holds)).collect();
        keys.sort();
        keys.dedup();
        let is_unreadable = |(_, held): &&(BudgetKey, Held)| {
            let Held::Unreadable(selector) = held else {
                return false;
            };
            selector
                .as_ref()
                .is_none_or(|selector| selector.matches(|key| pod.label(key)))
        };
        let unreadable = unseen
            .iter()
            .find(is_unreadable)
            .map(|(key, _)| format!("{} cannot be parsed: correct or delete it", key.words()));
        Holding { keys, unreadable }
    }

    /// The budgets of a namespace that the stores lack, by a read that begins now or later:
    /// concurrent callers share it.
    ///
    /// # Errors
    /// The apiserver did not say which there are, or this replica has fallen behind.
    pub(in crate::budgets) async fn unseen(&self, namespace: &str) -> Looked {
        let namespace = namespace.to_owned();
        let (answer, answered) = oneshot::channel();
        if let Some(this) = self.this.upgrade()
            && self.catalog.looks.join(&namespace, answer)
        {
            // A task of its own, because the caller that came first may give up while others still
            // wait.
            tokio::spawn(async move {
                while let Some(waiting) = this.catalog.looks.next(&namespace) {
                    let looked = this
                        .look(&namespace)
                        .await
                        .map(|unseen| Arc::new(Uncached(unseen)));
                    for answer in waiting {
                        // An error means that the caller no longer waits.
                        let _ = answer.send(looked.clone());
                    }
                }
            });
        }
        answered.await.unwrap_or(Err(UNREAD))
    }

    async fn look(&self, namespace: &str) -> Result<Vec<(BudgetKey, Held)>, NotYet> {
        let (unavailable, distributed) = try_join(
            self.not_stored(
                POD_UNAVAILABLE_BUDGETS,
                self.unavailable().is_some(),
                namespace,
            ),
            self.not_stored(
                DISTRIBUTED_POD_DISRUPTION_BUDGETS,
                self.distributed().is_some(),
                namespace,
            ),
        )
        .await?;
        if unavailable.len() + distributed.len() > MOST {
            return Err(UNREAD);
        }
        let read = unavailable.into_iter().chain(distributed).map(async |key| {
            let held = self.held(&key).await?;
            Ok(held.map(|held| (key, held)))
        });
        join_all(read)
            .await
            .into_iter()
            .filter_map(Result::transpose)
            .collect()
    }

    /// The budgets of one kind that the apiserver has now, and the stores lack.
    async fn not_stored(
        &self,
        resource: Resource,
        is_followed: bool,
        namespace: &str,
    ) -> Result<Vec<BudgetKey>, NotYet> {
        if !is_followed {
            return Ok(Vec::new());
        }
        let listed = metadata::identities(
            &self.parts.client,
            &resource,
            namespace,
            &self.catalog.whole,
        )
        .await
        .map_err(|_| UNREAD)?;
        let counting = if listed.len() > share::MOST {
            self.counting(resource, namespace)
        } else {
            Vec::new()
        };
        let counting: BTreeSet<_> = counting.iter().map(Budget::key).collect();
        let unseen = listed.into_iter().filter_map(|listed| {
            let key = BudgetKey {
                resource,
                key: Key::new(namespace, &listed.name),
            };
            // A budget that the stores lack is younger than those that they have.
            if counting.len() >= share::MOST && !counting.contains(&key) {
                return None;
            }
            let stored = self.stored(&key);
            let is_seen = stored.is_some_and(|stored| {
                let metadata = stored.metadata();
                metadata.uid.as_ref() == Some(&listed.uid)
                    && metadata.generation.unwrap_or_default() >= listed.generation
            });
            (!is_seen).then_some(key)
        });
        Ok(unseen.collect())
    }

    /// The pods of a budget that the stores lack; `None` if the budget is gone by now, or holds no
    /// pod any more.
    async fn held(&self, BudgetKey { resource, key }: &BudgetKey) -> Result<Option<Held>, NotYet> {
        let Ok(path) = resource.path(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let _reading = self.catalog.whole.acquire().await.map_err(|_| UNREAD)?;
        match client::get::<Box<RawValue>>(&self.parts.client, &path).await {
            Ok(text) => Ok(held(resource.plural, text.get()).map(|held| match held {
                Held::By(holds) => Held::By(Box::new(holds.with_gates(self.settings.gates))),
                unreadable => unreadable,
            })),
            Err(failed) if failed.is_not_found() => Ok(None),
            Err(_) => Err(UNREAD),
        }
    }
}

/// The fields of a budget that select its pods.
#[derive(Deserialize)]
struct Selecting {
    spec: SelectingSpec,
}

#[derive(Deserialize)]
struct SelectingSpec {
    selector: LabelSelector,
}

/// The pods of a budget, parsed from its text.
fn held(plural: &str, object: &str) -> Option<Held> {
    let Some(budget) = Budget::read(plural, object) else {
        let is_light = Limits::of_budgets()
            .check_object(&without_managed_fields(object))
            .is_ok();
        let read = is_light
            .then(|| serde_json::from_str::<Selecting>(object).ok())
            .flatten();
        let selector = read.and_then(|read| Selector::new(&read.spec.selector).ok());
        return Some(Held::Unreadable(
            selector.filter(|selector| !selector.is_empty()),
        ));
    };
    (!budget.is_over()).then(|| Held::By(Box::new(Holds::of(&budget))))
}

#[cfg(test)]
mod tests;
