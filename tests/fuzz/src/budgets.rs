//! Budgets for any state of the apiserver, including members' own reports, and reviews of pods that
//! are to be deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::Member;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_kinds::{
    distributedpoddisruptionbudget as distributed, podunavailablebudget as unavailable,
};
use berth_webhook::reviews;
use berth_workload::budget::Rules;
use berth_workload::budget::child::Without;
use berth_workload::budget::count::{Expected, Unknown, View};
use berth_workload::budget::federation::{Brings, Origin, Shared, Silence};
use berth_workload::budget::floor::promised;
use berth_workload::budget::ledger::{LedgerDecision, Request, reserve};
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::sharing::{Brought, Elsewhere, Held, count_once};
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::objects::document;

/// The objects. An object that its type cannot read is missing, as in the feed.
#[derive(Deserialize, Default)]
#[serde(default)]
struct World {
    now: i64,
    budget: Value,
    distributed: Value,
    natives: Vec<Value>,
    members: Vec<Value>,
    pods: Vec<Value>,
    /// How many pods are expected; below 0 the number is not known.
    expected: i64,
    /// For how many seconds each entry has been seen.
    seen: u64,
}

fn one<T: DeserializeOwned>(value: &Value) -> Option<Arc<T>> {
    serde_json::from_value(value.clone()).ok().map(Arc::new)
}

impl World {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn view(&self, entries: usize) -> View {
        let unknown = || Unknown {
            message: "no scale".to_owned(),
        };
        View {
            expected: usize::try_from(self.expected)
                .map(|total| Expected {
                    total,
                    selector: None,
                })
                .map_err(|_| unknown()),
            pods: self.pods.iter().filter_map(one::<Pod>).collect(),
            nodes: vec!["n1".to_owned()],
            position: "9".to_owned(),
            seen_for: vec![Duration::from_secs(self.seen % 1_000); entries],
            unseen: BTreeSet::new(),
            patience: Duration::from_secs(75),
        }
    }
}

/// One budget of either kind: a second count of the same view gives the same result, and the
/// granted pods were available.
pub(crate) fn budget(data: &[u8]) {
    let Some(world) = document(data).and_then(|document| World::deserialize(document).ok()) else {
        return;
    };
    let natives: Vec<_> = world
        .natives
        .iter()
        .filter_map(one::<NativeBudget>)
        .collect();
    if let Some(budget) = one::<PodUnavailableBudget>(&world.budget) {
        of_unavailable(&world, budget, natives.first().cloned());
    }
    if let Some(budget) = one::<DistributedPodDisruptionBudget>(&world.distributed) {
        of_distributed(&world, budget, &natives);
    }
}

fn of_unavailable(
    world: &World,
    budget: Arc<PodUnavailableBudget>,
    child: Option<Arc<NativeBudget>>,
) {
    let now = world.now();
    let snapshot = |budget: Arc<PodUnavailableBudget>| {
        let entries = budget
            .status
            .iter()
            .flat_map(|status| &status.ledger)
            .map(|ledger| ledger.entries.len())
            .sum();
        let keeps = if child.is_some() {
            Ok(())
        } else {
            Err(Without::NotRequested)
        };
        unavailable::Snapshot {
            budget,
            view: world.view(entries),
            webhook_calls: WebhookCalls::Always,
            child: child.clone(),
            keeps,
        }
    };
    let first = snapshot(budget.clone());
    let mut next = unavailable::status(&first, now);
    assert!(
        next.unavailable_allowed >= 0 && next.current_available >= 0,
        "{next:?}"
    );
    assert!(
        next.unavailable_allowed <= next.current_available,
        "more may go than there are: {next:?}"
    );
    unavailable::decide(&first, now);
    let mut counted = (*budget).clone();
    counted.status = Some(next.clone());
    assert_eq!(
        unavailable::status(&snapshot(Arc::new(counted)), now),
        next,
        "the same view says the same"
    );
    let Ok(rules) = Rules::of(&budget.spec) else {
        return;
    };
    let generation = budget.metadata.generation.unwrap_or_default();
    for pod in &first.view.pods {
        let request = Request {
            pod: pod.metadata.name.to_string(),
            uid: pod.metadata.uid.to_string(),
            operation: berth_api::v1beta1::podunavailablebudget::ProtectedOperation::Evict,
            holder: "somebody".to_owned(),
            is_available: true,
            generation: None,
            container_ids: Vec::new(),
            resizes: false,
            grant: None,
            is_again: false,
            is_repair: false,
            passes: false,
        };
        let before = next.unavailable_allowed;
        let decision = reserve(&mut next, (&rules, generation), &request, now);
        assert!(next.unavailable_allowed >= 0, "{decision:?} of {before}");
        assert!(
            before - next.unavailable_allowed <= i32::from(decision == LedgerDecision::Reserved),
            "{decision:?} of {before}"
        );
    }
}

fn of_distributed(
    world: &World,
    budget: Arc<DistributedPodDisruptionBudget>,
    natives: &[Arc<NativeBudget>],
) {
    let now = world.now();
    let brings = |value: &Value| {
        let brings = match (
            one::<DistributedPodDisruptionBudget>(value),
            one::<PodUnavailableBudget>(value),
        ) {
            (Some(member), _) if value["kind"] == "DistributedPodDisruptionBudget" => {
                Brings::of_distributed(&member)
            }
            (_, Some(member)) if value["kind"] == "PodUnavailableBudget" => {
                Brings::of_unavailable(&member)
            }
            _ => {
                let none = || Err(Silence::of("does not exist"));
                one::<NativeBudget>(value).map_or_else(none, |it| Brings::of_native(&it))
            }
        };
        // As for another cluster that has become silent since.
        let promise =
            one::<DistributedPodDisruptionBudget>(value).and_then(|member| promised(&member));
        let keeps = promise.map_or(0, |promise| promise.pods);
        brings.map_err(|silence| Silence { keeps, ..silence })
    };
    let held = |value: &Value| match value["kind"].as_str() {
        Some("DistributedPodDisruptionBudget") => {
            one::<DistributedPodDisruptionBudget>(value).map(|member| Held::of_distributed(&member))
        }
        Some("PodUnavailableBudget") => {
            one::<PodUnavailableBudget>(value).map(|member| Held::of_unavailable(&member))
        }
        _ => one::<NativeBudget>(value).and_then(|member| Held::of_native(&member)),
    };
    let member = Member {
        cluster: "east".to_owned(),
        namespace: "a".to_owned(),
        ..Member::default()
    };
    let alone: Vec<_> = world.members.iter().map(brings).collect();
    let elsewhere: Vec<_> = world
        .members
        .iter()
        .map(|value| Elsewhere {
            held: held(value),
            ..Elsewhere::default()
        })
        .collect();
    let mut once = alone.clone();
    let brought = once.iter_mut().zip(&elsewhere);
    let brought = brought.map(|(brings, elsewhere)| Brought {
        member: &member,
        elsewhere,
        brings,
    });
    let sharing = count_once(&mut brought.collect::<Vec<_>>());
    let healthy = |brings: &Result<Brings, Silence>| {
        brings
            .as_ref()
            .map_or_else(|silence| silence.keeps, |brings| brings.healthy)
    };
    for ((alone, once), counted) in alone.iter().zip(&once).zip(&sharing.counted) {
        assert_eq!(
            healthy(alone),
            healthy(once) + counted,
            "{alone:?} {once:?}"
        );
    }
    for group in &sharing.groups {
        let together: usize = group.iter().map(|at| healthy(&once[*at])).sum();
        let largest = group.iter().map(|at| healthy(&alone[*at])).max();
        assert_eq!(Some(together), largest, "{alone:?} {once:?}");
    }
    let other = |(brings, shared): (&Result<Brings, Silence>, &usize)| distributed::Other {
        kind: None,
        origin: Origin::default(),
        brings: brings.clone(),
        shared: Shared {
            pods: *shared,
            ..Shared::default()
        },
        last_read: None,
    };
    let snapshot = |budget: Arc<DistributedPodDisruptionBudget>| {
        let entries = budget
            .status
            .iter()
            .flat_map(|status| &status.ledger)
            .map(|ledger| ledger.entries.len())
            .sum();
        distributed::Snapshot {
            budget,
            view: world.view(entries),
            webhook_calls: WebhookCalls::Always,
            others: once.iter().zip(&sharing.counted).map(other).collect(),
            may_share: sharing.groups.clone(),
            child: natives.first().cloned(),
            keeps: Ok(()),
            seen_for: Duration::from_secs(30),
        }
    };
    let first = snapshot(budget.clone());
    let next = distributed::status(&first, now);
    assert!(
        next.disruptions_allowed >= 0 && next.disruptions_allowed <= next.own.healthy,
        "{next:?}"
    );
    let left = next.current_healthy - next.disruptions_allowed;
    assert!(
        next.disruptions_allowed == 0 || left >= next.desired_healthy,
        "{next:?}"
    );
    distributed::decide(&first, now);
    let mut counted = (*budget).clone();
    counted.status = Some(next.clone());
    assert_eq!(
        distributed::status(&snapshot(Arc::new(counted)), now),
        next,
        "the same view says the same"
    );
}

/// Reviews of pods that are taken out of service, and of evictions that are bound to a pod: any
/// input is read or refused.
pub(crate) fn disruption(data: &[u8]) {
    let is_review =
        serde_json::from_slice::<Value>(data).is_ok_and(|review| review["request"].is_object());
    for read in [
        reviews::reads_disruption(data),
        reviews::reads_eviction(data),
    ] {
        assert!(!read || is_review, "what is no review is none");
    }
}
