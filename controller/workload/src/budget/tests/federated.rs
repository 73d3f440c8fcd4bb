//! Budgets of different clusters that name each other, and replicas that reserve from them at once.
//! Reads, writes and grants come in any order; links are cut and healed; floors are raised and
//! lowered.
//!
//! `BERTH_BUDGET_STEPS` is the number of steps, in all histories together.

use std::cell::Cell;
use std::time::Duration;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{
    DistributedPodDisruptionBudgetStatus, OwnPods,
};
use berth_api::v1beta1::podunavailablebudget::{
    Ledger, PodUnavailableBudgetStatus, ProtectedOperation,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::json;

use crate::budget::expected::{Together, Wanted};
use crate::budget::federation::{Brings, MemberReport, Origin, Shared, Silence, Whole};
use crate::budget::ledger::{LedgerDecision, Request, release, reserve, set_numbers, stands};
use crate::budget::{Amount, Rules, floor};
use berth_api::IntOrString;

const BUDGETS: usize = 3;
const PODS: usize = 2;

/// A budget without a floor for which the apiserver calls the webhook.
fn without_floor() -> DistributedPodDisruptionBudget {
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "DistributedPodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "leaseSeconds": 10},
        "status": {"conditions": [{
            "type": "Enforced", "status": "True", "reason": "Asked", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    serde_json::from_value(budget).unwrap()
}

/// A fault that a history must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A grant stands by what was read before it was written.
    ChecksBeforeReserving,
    /// What others may count on is taken away at once.
    LowersAtOnce,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask {
        budget: usize,
        pod: usize,
    },
    /// A replica reads the budget and, at the same moment or not, the others.
    Look(usize),
    /// Reads the budget again, which another replica wrote, and keeps the values that it read of
    /// the others.
    LookAtOwn(usize),
    Reserve(usize),
    LookAgain(usize),
    Confirm(usize),
    TakeBack(usize),
    Land(usize),
    Count(usize),
    Return(usize, usize),
    /// The first sees the second no more, or again.
    Cut(usize, usize),
    Heal(usize, usize),
    /// One reads the others without being asked for anything.
    Poll(usize),
    SetFloor(usize, i32),
    Lead(usize),
    Seconds(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..BUDGETS, 0..PODS).prop_map(|(budget, pod)| Step::Ask { budget, pod }),
        8 => (0usize..5).prop_map(Step::Look),
        3 => (0usize..5).prop_map(Step::LookAtOwn),
        8 => (0usize..5).prop_map(Step::Reserve),
        8 => (0usize..5).prop_map(Step::LookAgain),
        8 => (0usize..5).prop_map(Step::Confirm),
        4 => (0usize..5).prop_map(Step::TakeBack),
        5 => (0usize..5).prop_map(Step::Land),
        4 => (0..BUDGETS).prop_map(Step::Count),
        3 => (0..BUDGETS, 0..PODS).prop_map(|(budget, pod)| Step::Return(budget, pod)),
        2 => (0..BUDGETS, 0..BUDGETS).prop_map(|(from, to)| Step::Cut(from, to)),
        1 => (0..BUDGETS, 0..BUDGETS).prop_map(|(from, to)| Step::Heal(from, to)),
        3 => (0..BUDGETS).prop_map(Step::Poll),
        3 => (0..BUDGETS, 0..3i32).prop_map(|(budget, pods)| Step::SetFloor(budget, pods)),
        6 => (0..BUDGETS).prop_map(Step::Lead),
        3 => (1u64..8).prop_map(Step::Seconds),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asked,
    Reserved,
    Granted,
    Refused,
}

struct Try {
    budget: usize,
    pod: usize,
    uid: usize,
    grant: usize,
    state: State,
    /// The version of the ledger that was read and the others' contributions; then the number of
    /// healthy pods.
    seen: Option<(u64, Vec<Result<Brings, Silence>>)>,
    own: Option<(usize, bool)>,
}

struct World {
    planted: Planted,
    rules: Rules,
    desired: usize,
    /// Of each budget, the uid of each pod that serves.
    pods: [[Option<usize>; PODS]; BUDGETS],
    ledgers: [PodUnavailableBudgetStatus; BUDGETS],
    versions: [u64; BUDGETS],
    tries: Vec<Try>,
    next: usize,
    /// Floors only; each binds its own budget.
    floors: [DistributedPodDisruptionBudget; BUDGETS],
    /// When the leader saw the floor that is wanted.
    wanted_since: [Option<u64>; BUDGETS],
    is_cut: [[bool; BUDGETS]; BUDGETS],
    /// What one may count on of another, and until when.
    promises: [[(usize, u64); BUDGETS]; BUDGETS],
    clock: u64,
}

impl World {
    fn new(planted: Planted, desired: usize) -> Self {
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": desired});
        let rules = Rules::of_distributed(&serde_json::from_value(spec).unwrap()).unwrap();
        let ledger = || PodUnavailableBudgetStatus {
            current_available: i32::try_from(PODS).unwrap(),
            ledger: Some(Ledger {
                counted: "1".to_owned(),
                ..Ledger::default()
            }),
            ..PodUnavailableBudgetStatus::default()
        };
        let pods = [0, 1, 2].map(|budget| [0, 1].map(|pod| Some(budget * PODS + pod)));
        Self {
            planted,
            rules,
            desired,
            pods,
            ledgers: [0; BUDGETS].map(|_| ledger()),
            versions: [0; BUDGETS],
            tries: Vec::new(),
            next: 100,
            floors: [0; BUDGETS].map(|_| without_floor()),
            wanted_since: [None; BUDGETS],
            is_cut: Default::default(),
            promises: Default::default(),
            clock: 0,
        }
    }

    /// The contributions of the others, as their apiservers have them now, or the promised floors
    /// if they are disconnected.
    fn others(&mut self, budget: usize) -> Vec<Result<Brings, Silence>> {
        let others = (0..BUDGETS).filter(|other| *other != budget);
        others.map(|other| self.look_at(budget, other)).collect()
    }

    fn look_at(&mut self, reader: usize, of: usize) -> Result<Brings, Silence> {
        let healthy = self.ledgers[of].current_available;
        if self.is_cut[reader][of] {
            let (pods, until) = self.promises[reader][of];
            let keeps = if until > self.clock { pods } else { 0 };
            return Err(Silence {
                keeps,
                ..Silence::of("does not answer")
            });
        }
        self.floors[of].status.get_or_insert_default().own.healthy = healthy;
        let promise = floor::promised(&self.floors[of]);
        self.promises[reader][of] = promise.map_or((0, 0), |promise| {
            (promise.pods, self.clock + promise.lasts.as_secs())
        });
        Ok(Brings {
            healthy: usize::try_from(healthy).unwrap(),
            expected: 0,
        })
    }

    fn whole(&mut self, budget: usize) -> Whole {
        let (others, floor) = (self.others(budget), floor::binding(&self.floors[budget]));
        Whole::of(&self.rules.amount, (PODS, floor), &others).unwrap()
    }

    fn lead(&mut self, budget: usize) {
        let since = *self.wanted_since[budget].get_or_insert(self.clock);
        let seen_for = match self.planted {
            Planted::LowersAtOnce => Duration::from_secs(u64::from(u32::MAX)),
            _ => Duration::from_secs(self.clock - since),
        };
        let (told, _) = floor::reported_floor(&self.floors[budget], seen_for);
        self.floors[budget].status.get_or_insert_default().floor = told;
    }

    fn request(&self, at: usize) -> Option<(usize, Request)> {
        let Try {
            budget,
            pod,
            uid,
            grant,
            ..
        } = self.tries.get(at)?;
        let request = Request {
            pod: format!("web-{pod}"),
            uid: uid.to_string(),
            operation: ProtectedOperation::Evict,
            holder: "somebody".to_owned(),
            is_available: self.pods[*budget][*pod] == Some(*uid),
            generation: None,
            container_ids: Vec::new(),
            resizes: false,
            grant: Some(grant.to_string()),
            is_again: false,
            is_repair: false,
            passes: false,
        };
        Some((*budget, request))
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask { budget, pod } => {
                if let Some(uid) = self.pods[budget][pod].filter(|_| self.tries.len() < 5) {
                    self.next += 1;
                    self.tries.push(Try {
                        budget,
                        pod,
                        uid,
                        grant: self.next,
                        state: State::Asked,
                        seen: None,
                        own: None,
                    });
                }
            }
            Step::Look(at) => {
                if let Some(budget) = self.tries.get(at).map(|one| one.budget) {
                    self.tries[at].seen = Some((self.versions[budget], self.others(budget)));
                }
            }
            Step::LookAtOwn(at) => {
                if let Some(Try {
                    budget,
                    seen: Some((version, _)),
                    ..
                }) = self.tries.get_mut(at)
                {
                    *version = self.versions[*budget];
                }
            }
            Step::Reserve(at) => self.reserve(at),
            Step::LookAgain(at) => {
                if let Some((budget, request)) = self
                    .request(at)
                    .filter(|_| self.tries[at].state == State::Reserved)
                {
                    let ledger = &self.ledgers[budget];
                    let own = usize::try_from(ledger.current_available).unwrap();
                    self.tries[at].own = Some((own, stands(ledger, &request)));
                }
            }
            Step::Confirm(at) => self.confirm(at),
            Step::TakeBack(at) => self.release(at),
            Step::Land(at) => {
                if self
                    .tries
                    .get(at)
                    .is_some_and(|one| one.state == State::Granted)
                {
                    let Try {
                        budget, pod, uid, ..
                    } = self.tries.remove(at);
                    let place = &mut self.pods[budget][pod];
                    *place = place.filter(|now| *now != uid);
                }
            }
            Step::Count(budget) => self.count(budget),
            Step::Cut(from, to) => self.is_cut[from][to] = true,
            Step::Heal(from, to) => self.is_cut[from][to] = false,
            Step::Poll(budget) => drop(self.others(budget)),
            Step::SetFloor(budget, pods) => {
                // A changed spec has another version, so that a replica with the old version must
                // read the spec again.
                self.versions[budget] += 1;
                self.floors[budget].spec.floor = pods;
                self.wanted_since[budget] = None;
            }
            Step::Lead(budget) => {
                self.versions[budget] += 1;
                self.lead(budget);
            }
            Step::Seconds(seconds) => self.clock += seconds,
            Step::Return(budget, pod) => {
                if self.pods[budget][pod].is_none() {
                    self.next += 1;
                    self.pods[budget][pod] = Some(self.next);
                }
            }
        }
    }

    fn reserve(&mut self, at: usize) {
        let Some((budget, request)) = self
            .request(at)
            .filter(|_| self.tries[at].state == State::Asked)
        else {
            return;
        };
        let Some((version, others)) = self.tries[at].seen.clone() else {
            return;
        };
        if version != self.versions[budget] {
            return;
        }
        let floor = floor::binding(&self.floors[budget]);
        let left = Whole::of(&self.rules.amount, (PODS, floor), &others)
            .unwrap()
            .left_to_own();
        self.versions[budget] = version + 1;
        let ledger = &mut self.ledgers[budget];
        let own = usize::try_from(ledger.current_available).unwrap();
        set_numbers(ledger, own, PODS, left);
        let decision = reserve(
            ledger,
            (&self.rules, 0),
            &request,
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        self.tries[at].state = match decision {
            LedgerDecision::Reserved if self.planted == Planted::ChecksBeforeReserving => {
                State::Granted
            }
            LedgerDecision::Reserved | LedgerDecision::Passed(_) => State::Reserved,
            LedgerDecision::Free | LedgerDecision::AlreadyReserved => State::Granted,
            LedgerDecision::Refused(_) => State::Refused,
        };
        if self.tries[at].state == State::Refused {
            self.tries.remove(at);
        }
    }

    fn confirm(&mut self, at: usize) {
        let Some((budget, _)) = self
            .request(at)
            .filter(|_| self.tries[at].state == State::Reserved)
        else {
            return;
        };
        let Some((own, is_there)) = self.tries[at].own else {
            return;
        };
        let whole = self.whole(budget);
        let is_enough = own >= whole.left_to_own() && is_there;
        self.tries[at].state = if is_enough {
            State::Granted
        } else {
            State::Refused
        };
    }

    fn release(&mut self, at: usize) {
        let Some((budget, request)) = self
            .request(at)
            .filter(|_| self.tries[at].state == State::Refused)
        else {
            return;
        };
        release(&mut self.ledgers[budget], &request);
        self.versions[budget] += 1;
        self.tries.remove(at);
    }

    /// The leader drops entries of pods that are gone, and counts the others.
    fn count(&mut self, budget: usize) {
        let pods: Vec<_> = self.pods[budget]
            .iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let ledger = self.ledgers[budget].ledger.as_mut().unwrap();
        ledger.entries.retain(|entry| pods.contains(&entry.uid));
        let free = pods
            .iter()
            .filter(|uid| ledger.entries.iter().all(|entry| entry.uid != **uid))
            .count();
        self.ledgers[budget].current_available = i32::try_from(free).unwrap();
        self.versions[budget] += 1;
    }

    /// Only granted pods are out of service: the others serve, and each budget has as many as its
    /// spec requires.
    fn check(&self) -> Result<(), String> {
        let may_go = |uid: usize| {
            self.tries
                .iter()
                .any(|one| one.uid == uid && one.state == State::Granted)
        };
        let safe = self
            .pods
            .iter()
            .flatten()
            .flatten()
            .filter(|uid| !may_go(**uid))
            .count();
        if safe < self.desired {
            Err(format!("{safe} stay, {} must", self.desired))
        } else {
            Ok(())
        }
    }
}

fn histories(planted: Planted, cases: u32) -> Option<(Vec<Step>, String)> {
    let taken = Cell::new(0);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let ran = runner.run(
        &(3usize..6, prop::collection::vec(step(), 20..120)),
        |(desired, steps)| {
            let mut world = World::new(planted, desired);
            for step in &steps {
                world.take(*step);
                taken.set(taken.get() + 1);
                world.check().map_err(TestCaseError::fail)?;
            }
            Ok(())
        },
    );
    match ran {
        Ok(()) => None,
        Err(TestError::Fail(reason, (_, steps))) => Some((steps, reason.to_string())),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "how long a test goes on is no decision"
)]
fn mutual_budgets_never_allow_too_many_at_once() {
    const STEPS: u32 = 100_000;
    const OF_A_HISTORY: u32 = 70;
    let steps = std::env::var("BERTH_BUDGET_STEPS").map_or(STEPS, |steps| steps.parse().unwrap());
    let found = histories(Planted::Nothing, steps / OF_A_HISTORY + 1);
    assert!(found.is_none(), "{found:#?}");
}

#[test]
fn check_before_reservation_alone_allows_too_many() {
    assert!(histories(Planted::ChecksBeforeReserving, 50_000).is_some());
}

/// Every pod of a budget is evicted, one after the other, as far as may be.
fn evicted(world: &mut World, budget: usize) -> Result<(), String> {
    for pod in 0..PODS {
        let course = [
            Step::Look(0),
            Step::Reserve(0),
            Step::LookAgain(0),
            Step::Confirm(0),
            Step::TakeBack(0),
            Step::Land(0),
        ];
        for step in [Step::Ask { budget, pod }]
            .into_iter()
            .chain(course)
            .chain([Step::Count(budget)])
        {
            world.take(step);
            world.check()?;
        }
    }
    Ok(())
}

#[test]
fn lowered_floor_binds_while_others_count_on_it() {
    for (planted, is_kept) in [(Planted::Nothing, true), (Planted::LowersAtOnce, false)] {
        let mut world = World::new(planted, 4);
        for step in [
            Step::SetFloor(1, 2),
            Step::Lead(1),
            Step::Poll(0),
            Step::Cut(0, 1),
            Step::SetFloor(1, 0),
        ] {
            world.take(step);
        }
        world.take(Step::Lead(1));
        let kept = evicted(&mut world, 1).and_then(|()| evicted(&mut world, 0));
        assert_eq!(kept.is_ok(), is_kept, "{planted:?}: {kept:?}");
        if planted == Planted::Nothing {
            // When no other budget counts on these pods any more, the other budget's pods leave and
            // these stay.
            for step in [Step::Seconds(10), Step::Lead(1)] {
                world.take(step);
            }
            assert_eq!(evicted(&mut world, 1), Ok(()));
            assert_eq!(floor::binding(&world.floors[1]), 0);
        }
    }
}

#[test]
fn reservation_of_other_request_is_not_released() {
    let mut world = World::new(Planted::Nothing, 3);
    for step in [
        Step::Ask { budget: 0, pod: 0 },
        Step::Look(0),
        Step::Reserve(0),
    ] {
        world.take(step);
    }
    for step in [
        Step::Ask { budget: 0, pod: 0 },
        Step::Look(1),
        Step::Reserve(1),
    ] {
        world.take(step);
    }
    let [(_, first), (_, second)] = [0, 1].map(|at| world.request(at).unwrap());
    let ledger = &mut world.ledgers[0];
    assert_eq!(ledger.current_available, 1, "a pod is charged once");
    assert!(stands(ledger, &first) && stands(ledger, &second));
    release(ledger, &first);
    assert!(!stands(ledger, &first) && stands(ledger, &second));
    release(ledger, &second);
    assert!(!stands(ledger, &second));
}

#[test]
fn contribution_is_counted_pods_minus_granted_ones() {
    let budget = |generation: i64, counted: &str| {
        let mut budget = DistributedPodDisruptionBudget::default();
        budget.metadata.generation = Some(generation);
        budget.status = Some(DistributedPodDisruptionBudgetStatus {
            observed_generation: 1,
            own: OwnPods {
                healthy: 3,
                expected: 4,
            },
            ledger: Some(Ledger {
                counted: counted.to_owned(),
                ..Ledger::default()
            }),
            ..DistributedPodDisruptionBudgetStatus::default()
        });
        Brings::of_distributed(&budget)
            .ok()
            .map(|brings| (brings.healthy, brings.expected))
    };
    assert_eq!(budget(1, "7"), Some((3, 4)));
    assert_eq!(budget(2, "7"), None, "it has another spec than was counted");
    assert_eq!(budget(1, ""), None, "its pods cannot be counted");
    let native = |status: serde_json::Value| {
        let native = json!({"metadata": {"generation": 1}, "status": status});
        let brings = Brings::of_native(&serde_json::from_value(native).unwrap());
        brings.ok().map(|brings| (brings.healthy, brings.expected))
    };
    let counted = json!({"observedGeneration": 1, "currentHealthy": 3, "expectedPods": 3, "disruptedPods": {"a": "2026-01-01T00:00:00Z"}});
    assert_eq!(native(counted), Some((2, 3)));
    assert_eq!(native(json!({})), None);
    let shared = Shared {
        pods: 2,
        expected: 1,
    };
    assert_eq!(
        Brings {
            healthy: 3,
            expected: 5
        }
        .without(shared),
        Brings {
            healthy: 1,
            expected: 4
        }
    );
    assert_eq!(
        Brings {
            healthy: 1,
            expected: 0
        }
        .without(shared),
        Brings::default()
    );
}

/// The pods that a budget of five own pods lets leave next to a budget of another cluster that
/// reports wrong numbers: its healthy pods, its expected pods, the own `floor`, and how many own
/// pods may leave.
#[test]
fn wrong_report_of_cluster_allows_a_bounded_number() {
    let max = |amount| Amount::MaxUnavailable(IntOrString::Int(amount));
    let min = |amount| Amount::MinAvailable(IntOrString::Int(amount));
    let half = Amount::MinAvailable(IntOrString::String("50%".to_owned()));
    let huge = usize::try_from(i32::MAX).unwrap();
    for (amount, reported, floor, expected) in [
        // Surplus pods and scaled workloads there free no pod here.
        (max(1), (3, 3), 0, 1),
        (max(1), (100, 3), 0, 1),
        (max(1), (100, 100), 0, 1),
        (max(1), (huge, huge), 0, 1),
        (max(1), (0, 100), 0, 0),
        (min(6), (3, 3), 0, 2),
        (min(6), (100, 3), 0, 2),
        // Workloads that want more do, so `floor` keeps some here.
        (min(6), (100, 100), 0, 5),
        (min(6), (100, 100), 4, 1),
        (half.clone(), (100, 3), 0, 4),
        (half.clone(), (100, 100), 0, 5),
        (half, (100, 100), 4, 1),
    ] {
        let (healthy, pods) = reported;
        let other = Brings {
            healthy,
            expected: pods,
        }
        .without_surplus();
        let whole = Whole::of(&amount, (5, floor), &[Ok(other)]).unwrap();
        assert_eq!(
            whole.allowed(5),
            expected,
            "{amount:?} {reported:?} {floor}"
        );
    }
}

#[test]
fn shared_budget_contributes_at_most_what_it_reported() {
    let origin = |uid: &str, generation: i64| Origin {
        uid: uid.to_owned(),
        generation,
    };
    let report = |may_share: bool, shared: usize, brought: Option<(usize, usize)>| MemberReport {
        shared: Shared {
            pods: shared,
            expected: shared,
        },
        origin: origin("b", 1),
        brought: brought.map(|(healthy, expected)| Brings { healthy, expected }),
        may_share,
    };
    let before = || MemberReport {
        origin: Origin::default(),
        ..report(true, 0, Some((1, 2)))
    };
    for (what, report, of, now, expected) in [
        (
            "no other budget may hold them",
            report(false, 0, None),
            origin("b", 1),
            (3, 3),
            Some((3, 3)),
        ),
        (
            "what it has counted since is not reported",
            report(true, 0, Some((0, 3))),
            origin("b", 1),
            (3, 3),
            Some((0, 3)),
        ),
        (
            "it has granted one",
            report(true, 1, Some((3, 3))),
            origin("b", 1),
            (3, 4),
            Some((2, 3)),
        ),
        (
            "it expects fewer",
            report(true, 1, Some((2, 4))),
            origin("b", 1),
            (3, 2),
            Some((2, 4)),
        ),
        (
            "it expects more",
            report(true, 1, Some((2, 2))),
            origin("b", 1),
            (3, 5),
            Some((2, 4)),
        ),
        (
            "its pods were unknown",
            report(true, 0, None),
            origin("b", 1),
            (3, 3),
            None,
        ),
        (
            "it was made again",
            report(true, 0, Some((3, 3))),
            origin("c", 1),
            (3, 3),
            None,
        ),
        (
            "it has another spec",
            report(true, 0, Some((3, 3))),
            origin("b", 2),
            (3, 3),
            None,
        ),
        (
            "a build before told no uid",
            before(),
            origin("b", 1),
            (3, 3),
            Some((1, 3)),
        ),
    ] {
        let brings = report
            .bring(
                &of,
                Brings {
                    healthy: now.0,
                    expected: now.1,
                },
            )
            .ok();
        assert_eq!(
            brings.map(|brings| (brings.healthy, brings.expected)),
            expected,
            "{what}"
        );
    }
}

// One Deployment of 2 belongs to both, another of 2 to the named budget only.
#[test]
fn ended_or_surge_pods_allow_no_more_evictions() {
    let wanted = |all: &[(&str, usize)]| -> Wanted {
        all.iter()
            .map(|(uid, wanted)| ((*uid).to_owned(), *wanted))
            .collect()
    };
    for (what, both, healthy, allowed) in [
        ("all serve", 2, 4, 1),
        ("those of the member alone fail", 2, 2, 0),
        ("and of the others two have ended", 4, 2, 0),
        ("a rollout makes second ones", 4, 4, 0),
    ] {
        let mut together = Together::default();
        together.add(2, wanted(&[("web", 2)]));
        let shared = Shared {
            pods: both,
            expected: together.add(4, wanted(&[("web", 2), ("fe", 2)])),
        };
        let brings = Brings {
            healthy,
            expected: 4,
        }
        .without(shared);
        let whole = Whole::of(
            &Amount::MaxUnavailable(IntOrString::Int(1)),
            (2, 0),
            &[Ok(brings)],
        )
        .unwrap();
        assert_eq!(
            (whole.expected, whole.allowed(2)),
            (4, allowed),
            "{what}: {brings:?}"
        );
    }
}

#[test]
fn own_minimum_depends_on_contributions_of_others() {
    let int = |number| IntOrString::Int(number);
    let text = |text: &str| IntOrString::String(text.to_owned());
    let known = |healthy, expected| Ok(Brings { healthy, expected });
    let silent = || Err(Silence::of("does not exist"));
    let keeps = |keeps| {
        Err(Silence {
            keeps,
            ..Silence::of("is silent")
        })
    };
    for (amount, own, others, left, allowed) in [
        (
            Amount::MinAvailable(int(3)),
            3,
            vec![keeps(2)],
            Some(1),
            Some(2),
        ),
        (
            Amount::MaxUnavailable(int(1)),
            3,
            vec![keeps(2)],
            None,
            None,
        ),
        (Amount::MinAvailable(int(3)), 3, vec![], Some(3), Some(0)),
        (
            Amount::MinAvailable(int(3)),
            3,
            vec![known(2, 2)],
            Some(1),
            Some(2),
        ),
        (
            Amount::MinAvailable(int(3)),
            3,
            vec![known(5, 5)],
            Some(0),
            Some(3),
        ),
        (
            Amount::MinAvailable(int(3)),
            3,
            vec![silent()],
            Some(3),
            Some(0),
        ),
        (
            Amount::MaxUnavailable(int(1)),
            3,
            vec![known(2, 3)],
            Some(3),
            Some(0),
        ),
        (
            Amount::MaxUnavailable(int(1)),
            3,
            vec![known(3, 3)],
            Some(2),
            Some(1),
        ),
        (
            Amount::MaxUnavailable(int(1)),
            3,
            vec![silent()],
            None,
            None,
        ),
        (
            Amount::MinAvailable(text("50%")),
            4,
            vec![known(4, 6)],
            Some(1),
            Some(3),
        ),
    ] {
        let whole = Whole::of(&amount, (own, 0), &others).ok();
        let kept = Whole::of(&amount, (own, own), &others).ok();
        assert!(
            kept.is_none_or(|kept| kept.allowed(own) == 0),
            "none goes below the floor: {amount:?} {others:?}"
        );
        let found = (
            whole.map(|whole| whole.left_to_own()),
            whole.map(|whole| whole.allowed(own)),
        );
        assert_eq!(found, (left, allowed), "{amount:?} {others:?}");
    }
}
