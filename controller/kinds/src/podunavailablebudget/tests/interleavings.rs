//! One budget, two webhook replicas, a leader and its successor, and an apiserver that carries out
//! allowed requests at once, later or never. In every order, as many pods are available as the
//! budget wants.
//!
//! `BERTH_BUDGET_STEPS` is the number of steps in all histories together. Proptest generates and
//! shrinks the histories.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::IntOrString;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{
    LedgerEntry, PodUnavailableBudgetStatus, ProtectedOperation,
};
use berth_workload::budget::ledger::{LedgerDecision, Request, name_pods, release, reserve};
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::budget::{Amount, Rules};
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::json;

use berth_workload::budget::count::{Expected, Unknown, View};

use super::super::{Snapshot, status};

/// Steps in `make test`.
const STEPS: usize = 30_000;
/// Most steps in one history.
const LONGEST: usize = 120;
/// A planted fault is found within this many histories.
const ENOUGH: u32 = 20_000;
const PODS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(75);
/// Seconds after which the apiserver no longer carries out a request.
const GIVEN_UP: u64 = 60;
/// Seconds for which another request for a replica's entry counts as the same request.
const SAME_REQUEST: u64 = 10;
/// Seconds that the second replica's clock is ahead.
const AHEAD: u64 = 60;
const OPERATIONS: [ProtectedOperation; 3] = [
    ProtectedOperation::Delete,
    ProtectedOperation::Evict,
    ProtectedOperation::Update,
];

/// A fault that the history must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A webhook replica reserves by the budget in its cache, and overwrites the stored one.
    GrantsFromCache,
    /// A leader drops an entry while the request may still be carried out.
    ExpiresEarly,
    /// A leader drops an entry in time, and has not seen the request's effect.
    ExpiresUnseen,
    /// A leader counts from pods that are older than those of the last count.
    OlderView,
    /// Entries are settled by pod names.
    NamesForUids,
    /// A leader counts a pod that it has not seen yet as gone.
    UnseenIsGone,
    /// The release for one request removes the entry that another request of the same pod relies
    /// on.
    SharedEntries,
    /// A replica recognises a repeated request by the time of the entry, which another clock wrote.
    TellsByClocks,
}

#[derive(Debug, Clone)]
enum Step {
    /// A client wants a pod out of service, through a replica.
    Ask {
        replica: usize,
        pod: usize,
        operation: usize,
        /// Another budget selects the pod, too, and may refuse.
        has_other: bool,
        /// The client is the pod's own workload.
        is_own: bool,
    },
    /// Another budget has refused a request: the replica releases the reservation.
    TakeBack(usize),
    /// A replica validates a request under way (again).
    Validate(usize),
    /// The apiserver carries out an allowed request, or the answer was lost on the way.
    Land {
        request: usize,
        lost: bool,
    },
    /// A replica's or a leader's cache gets the newest budget.
    See(usize),
    /// A leader's cache gets the newest pods.
    SeePods(usize),
    /// A leader counts, and writes the status.
    Count(usize),
    /// A kubelet advances a pod: one that is being deleted is gone, one that changed serves again.
    Kubelet(usize),
    /// The workload creates a pod for one that is gone.
    Replace,
    Time(u64),
    /// A leader dies, with all that it knew of time. Its successor starts from the stored objects.
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..2, 0usize..PODS, 0usize..3, any::<bool>(), any::<bool>())
            .prop_map(|(replica, pod, operation, has_other, is_own)| Step::Ask { replica, pod, operation, has_other, is_own }),
        3 => (0usize..6).prop_map(Step::TakeBack),
        8 => (0usize..6).prop_map(Step::Validate),
        6 => (0usize..6, prop::bool::weighted(0.2)).prop_map(|(request, lost)| Step::Land { request, lost }),
        6 => (0usize..4).prop_map(Step::See),
        6 => (0usize..2).prop_map(Step::SeePods),
        8 => (0usize..2).prop_map(Step::Count),
        6 => (0usize..PODS).prop_map(Step::Kubelet),
        4 => Just(Step::Replace),
        4 => prop::sample::select(vec![1u64, 20, 50, 76]).prop_map(Step::Time),
        1 => (0usize..2).prop_map(Step::Restart),
    ]
}

#[derive(Debug, Clone)]
struct SimPod {
    name: usize,
    uid: u64,
    ready: bool,
    going: bool,
    generation: i64,
    /// Changes with each change of the pod.
    version: u64,
}

/// A request that the apiserver is processing.
struct InFlight {
    replica: usize,
    pod: SimPod,
    operation: ProtectedOperation,
    /// The version of the pod for which it was allowed.
    granted: Option<u64>,
    began: u64,
    has_other: bool,
    is_own: bool,
    /// The last reservation, if it may be released.
    reserved: Option<Request>,
}

/// The budget in the cache of a replica or a leader.
#[derive(Clone)]
struct Seen {
    version: u64,
    status: PodUnavailableBudgetStatus,
}

/// An entry of the ledger: the uid, the operation, the time, its name, and the generation of the
/// pod.
type Granted = (
    String,
    ProtectedOperation,
    Timestamp,
    Option<String>,
    Option<i64>,
);

/// A change of a pod, as a replica remembers it: the uid, the operation, and the generation of the
/// pod.
type Change = (String, ProtectedOperation, Option<i64>);

#[derive(Default, Clone)]
struct Leader {
    pods: Vec<SimPod>,
    /// Uids of all pods that the leader has ever seen.
    known: BTreeSet<u64>,
    /// The version of the pods in its cache.
    position: u64,
    /// By entry: since when the leader has seen it, and the version of pods that the leader must
    /// see before the entry may expire.
    since: BTreeMap<Granted, (u64, Option<u64>)>,
}

struct World {
    planted: Planted,
    rules: Rules,
    desired: usize,
    pods: Vec<SimPod>,
    next_uid: u64,
    next_grant: u64,
    /// The version of pods and the budget together, as in etcd.
    version: u64,
    budget: Seen,
    /// The caches of two replicas, then of two leaders.
    seen: [Seen; 4],
    /// By replica: the time of each of its entries.
    entered: [BTreeMap<Change, u64>; 2],
    leaders: [Leader; 2],
    requests: Vec<InFlight>,
    now: u64,
}

fn pod_object(pod: &SimPod) -> Arc<Pod> {
    let ready = if pod.ready { "True" } else { "False" };
    let mut object = json!({
        "metadata": {"name": format!("web-{}", pod.name), "uid": pod.uid.to_string(), "labels": {"app": "web"}, "generation": pod.generation},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "observedGeneration": pod.generation, "conditions": [{"type": "Ready", "status": ready}]},
    });
    if pod.going {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

impl World {
    fn new(planted: Planted, amount: Amount) -> Self {
        let spec = match &amount {
            Amount::MaxUnavailable(most) => {
                json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": most})
            }
            Amount::MinAvailable(least) => json!({
                "selector": {"matchLabels": {"app": "web"}}, "minAvailable": least,
                "unhealthyPodPolicy": "IfHealthyBudget",
            }),
        };
        let rules = Rules::of(&serde_json::from_value(spec).unwrap()).unwrap();
        let desired = rules.amount.desired(PODS).unwrap();
        let pod = |name: usize| SimPod {
            name,
            uid: name as u64,
            ready: true,
            going: false,
            generation: 1,
            version: 1,
        };
        let none = Seen {
            version: 0,
            status: PodUnavailableBudgetStatus::default(),
        };
        Self {
            planted,
            rules,
            desired,
            pods: (0..PODS).map(pod).collect(),
            next_uid: PODS as u64,
            next_grant: 0,
            version: 1,
            budget: none.clone(),
            seen: [none.clone(), none.clone(), none.clone(), none],
            entered: Default::default(),
            leaders: Default::default(),
            requests: Vec::new(),
            now: 0,
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(1_000_000 + i64::try_from(self.now).unwrap()).unwrap()
    }

    /// Writes the budget, unless it has changed since `seen`.
    fn write(&mut self, seen: &Seen, status: PodUnavailableBudgetStatus) -> bool {
        if seen.version != self.budget.version {
            return false;
        }
        self.force(status);
        true
    }

    fn force(&mut self, status: PodUnavailableBudgetStatus) {
        self.version += 1;
        self.budget = Seen {
            version: self.version,
            status,
        };
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Ask {
                replica,
                pod,
                operation,
                has_other,
                is_own,
            } => {
                if let Some(pod) = self
                    .pods
                    .get(pod)
                    .filter(|pod| (pod.ready || is_own) && !pod.going)
                    .cloned()
                {
                    let operation = OPERATIONS[operation];
                    let (granted, reserved, began) = (None, None, self.now);
                    self.requests.push(InFlight {
                        replica,
                        pod,
                        operation,
                        granted,
                        began,
                        has_other,
                        is_own,
                        reserved,
                    });
                }
            }
            Step::TakeBack(request) => self.take_back(request),
            Step::Validate(request) => self.validate(request),
            Step::Land { request, lost } => self.land(request, lost),
            Step::See(who) => self.seen[who] = self.budget.clone(),
            Step::SeePods(leader) => {
                self.leaders[leader].pods = self.pods.clone();
                self.leaders[leader]
                    .known
                    .extend(self.pods.iter().map(|pod| pod.uid));
                self.leaders[leader].position = self.version;
            }
            Step::Count(leader) => self.count(leader),
            Step::Kubelet(pod) => self.kubelet(pod),
            Step::Replace => {
                let missing = (0..PODS).find(|name| self.pods.iter().all(|pod| pod.name != *name));
                if let Some(name) = missing {
                    self.version += 1;
                    let uid = self.next_uid;
                    self.next_uid += 1;
                    self.pods.push(SimPod {
                        name,
                        uid,
                        ready: false,
                        going: false,
                        generation: 1,
                        version: self.version,
                    });
                }
            }
            Step::Time(seconds) => self.now += seconds,
            // A list is never older than the stored objects.
            Step::Restart(leader) => {
                let (pods, position) = (self.pods.clone(), self.version);
                let known = pods.iter().map(|pod| pod.uid).collect();
                self.leaders[leader] = Leader {
                    pods,
                    known,
                    position,
                    ..Leader::default()
                };
                self.seen[2 + leader] = self.budget.clone();
            }
        }
    }

    fn validate(&mut self, request: usize) {
        let Some(InFlight {
            replica,
            pod,
            operation,
            began,
            has_other,
            is_own: is_of_owner,
            ..
        }) = self.requests.get(request)
        else {
            return;
        };
        let is_own = *has_other && self.planted != Planted::SharedEntries;
        self.next_grant += 1;
        let grant = is_own.then(|| self.next_grant.to_string());
        if self.now - began > GIVEN_UP {
            return;
        }
        let (replica, operation, pod, is_of_owner) =
            (*replica, *operation, pod.clone(), *is_of_owner);
        // The apiserver shows the pod as it is now.
        let current = self.pods.iter().find(|now| now.uid == pod.uid);
        let is_available = current.is_some_and(|pod| pod.ready && !pod.going);
        let current_version = current.map_or(0, |pod| pod.version);
        let reservation = Request {
            pod: format!("web-{}", pod.name),
            uid: pod.uid.to_string(),
            operation,
            holder: "somebody".to_owned(),
            is_available,
            generation: current
                .filter(|_| operation.is_change())
                .map(|pod| pod.generation),
            container_ids: Vec::new(),
            resizes: false,
            grant,
            is_again: false,
            is_repair: is_of_owner && !is_available && operation != ProtectedOperation::Evict,
            passes: false,
        };
        let clock = self.time() + Duration::from_secs(if replica == 1 { AHEAD } else { 0 });
        let mut view = self.seen[replica].clone();
        for _ in 0..2 {
            let mut next = view.status.clone();
            let reservation = Request {
                is_again: self.is_again(replica, &view, &reservation, clock),
                ..reservation.clone()
            };
            let decision = reserve(&mut next, (&self.rules, 1), &reservation, clock);
            let is_new = decision == LedgerDecision::Reserved
                && reservation.grant.is_none()
                && !reservation.is_again;
            let granted = match decision {
                LedgerDecision::Reserved if self.planted == Planted::GrantsFromCache => {
                    self.force(next);
                    true
                }
                LedgerDecision::Reserved | LedgerDecision::Passed(_) => self.write(&view, next),
                LedgerDecision::Free | LedgerDecision::AlreadyReserved => true,
                LedgerDecision::Refused(_) => false,
            };
            if granted {
                if is_new {
                    self.entered[replica].insert(
                        (reservation.uid.clone(), operation, reservation.generation),
                        self.now,
                    );
                }
                self.requests[request].granted = Some(current_version);
                self.requests[request].reserved = Some(reservation);
                return;
            }
            view = self.budget.clone();
        }
    }

    /// Whether a replica takes a request for the one of its entry.
    fn is_again(
        &self,
        replica: usize,
        view: &Seen,
        reservation: &Request,
        clock: Timestamp,
    ) -> bool {
        if self.planted == Planted::TellsByClocks {
            let mut entries = view.status.ledger.iter().flat_map(|ledger| &ledger.entries);
            let is_young = |entry: &LedgerEntry| {
                clock.as_second() - entry.time.0.as_second() < SAME_REQUEST.cast_signed()
            };
            return entries.any(|entry| entry.uid == reservation.uid && is_young(entry));
        }
        let change = (
            reservation.uid.clone(),
            reservation.operation,
            reservation.generation,
        );
        self.entered[replica]
            .get(&change)
            .is_some_and(|since| self.now - since < SAME_REQUEST)
    }

    /// Another budget refuses the request, regardless of this budget's answer.
    fn take_back(&mut self, request: usize) {
        if !self
            .requests
            .get(request)
            .is_some_and(|request| request.has_other && request.reserved.is_some())
        {
            return;
        }
        if let Some(reserved) = self.requests.remove(request).reserved {
            let mut status = self.budget.status.clone();
            release(&mut status, &reserved);
            self.force(status);
        }
    }

    fn land(&mut self, request: usize, lost: bool) {
        let Some(InFlight {
            granted: Some(_), ..
        }) = self.requests.get(request)
        else {
            return;
        };
        let may_land = self.may_land(&self.requests[request]);
        let InFlight { pod, operation, .. } = self.requests.remove(request);
        if lost || !may_land {
            return;
        }
        self.version += 1;
        let version = self.version;
        if let Some(now) = self
            .pods
            .iter_mut()
            .find(|now| now.uid == pod.uid && !now.going)
        {
            now.version = version;
            if operation.is_change() {
                now.generation += 1;
                now.ready = false;
            } else {
                now.going = true;
            }
        }
    }

    /// Whether an allowed request may be carried out now: in time, and a deletion or a change only
    /// for the pod in the version of the request.
    fn may_land(&self, request: &InFlight) -> bool {
        let current = self.pods.iter().find(|pod| pod.uid == request.pod.uid);
        let is_as_shown = current.is_some_and(|pod| request.granted == Some(pod.version));
        let is_bound = request.operation != ProtectedOperation::Evict;
        request.granted.is_some()
            && self.now - request.began <= GIVEN_UP
            && (!is_bound || is_as_shown)
    }

    fn kubelet(&mut self, pod: usize) {
        let Some(at) = self
            .pods
            .iter()
            .position(|now| now.name == pod && (now.going || !now.ready))
        else {
            return;
        };
        self.version += 1;
        if self.pods[at].going {
            self.pods.remove(at);
        } else {
            self.pods[at].ready = true;
            self.pods[at].version = self.version;
        }
    }

    fn count(&mut self, leader: usize) {
        let seen = self.seen[2 + leader].clone();
        let ledger = seen.status.ledger.clone().unwrap_or_default();
        let position = self.leaders[leader].position;
        let counted: u64 = ledger.counted.parse().unwrap_or(0);
        if position == 0 || (position < counted && self.planted != Planted::OlderView) {
            return;
        }
        let snapshot = self.snapshot(leader, &seen, &ledger.entries);
        let mut next = status(&snapshot, self.time());
        if self.planted == Planted::NamesForUids {
            let known = &self.leaders[leader].pods;
            let is_replaced = |entry: &LedgerEntry| {
                known
                    .iter()
                    .any(|pod| format!("web-{}", pod.name) == entry.pod && pod.ready)
            };
            next.ledger
                .as_mut()
                .unwrap()
                .entries
                .retain(|entry| !is_replaced(entry));
            name_pods(&mut next);
        }
        if next != seen.status {
            self.write(&seen, next);
        }
    }

    fn snapshot(&mut self, leader: usize, seen: &Seen, entries: &[LedgerEntry]) -> Snapshot {
        let (now, version, planted) = (self.now, self.version, self.planted);
        let Leader {
            since,
            position,
            known,
            ..
        } = &mut self.leaders[leader];
        let is_unseen = |entry: &&LedgerEntry| {
            planted != Planted::UnseenIsGone && known.iter().all(|uid| uid.to_string() != entry.uid)
        };
        let unseen = entries
            .iter()
            .filter(is_unseen)
            .map(|entry| entry.uid.clone())
            .collect();
        let patience = if planted == Planted::ExpiresEarly {
            Duration::from_secs(20)
        } else {
            PATIENCE
        };
        let seen_for = entries.iter().map(|entry| {
            let key = (
                entry.uid.clone(),
                entry.operation,
                entry.time.0,
                entry.grant.clone(),
                entry.generation,
            );
            let (first, needed) = since.entry(key).or_insert((now, None));
            let seen_for = Duration::from_secs(now - *first);
            // The newest version shows the request's effect by now.
            let is_seen = seen_for < patience || *position >= *needed.get_or_insert(version);
            if is_seen || planted == Planted::ExpiresUnseen {
                seen_for
            } else {
                Duration::ZERO
            }
        });
        let seen_for = seen_for.collect();
        let budget: PodUnavailableBudget = serde_json::from_value(json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
            "metadata": {"name": "web", "namespace": "default", "uid": "b", "generation": 1},
            "spec": self.spec(), "status": seen.status,
        }))
        .unwrap();
        Snapshot {
            budget: Arc::new(budget),
            view: View {
                expected: self.expected(),
                pods: self.leaders[leader].pods.iter().map(pod_object).collect(),
                nodes: vec!["n1".to_owned()],
                position: self.leaders[leader].position.to_string(),
                seen_for,
                unseen,
                patience,
            },
            webhook_calls: WebhookCalls::Always,
            child: None,
            keeps: Err(berth_workload::budget::child::Without::NotRequested),
        }
    }

    /// If a number says how many pods must stay, no workload says how many pods it wants.
    fn expected(&self) -> Result<Expected, Unknown> {
        match &self.rules.amount {
            Amount::MaxUnavailable(_) => Ok(Expected {
                total: PODS,
                selector: None,
            }),
            Amount::MinAvailable(_) => Err(Unknown {
                message: "has no scale".to_owned(),
            }),
        }
    }

    fn spec(&self) -> serde_json::Value {
        let selector = json!({"matchLabels": {"app": "web"}});
        match &self.rules.amount {
            Amount::MaxUnavailable(most) => json!({"selector": selector, "maxUnavailable": most}),
            Amount::MinAvailable(least) => json!({"selector": selector, "minAvailable": least}),
        }
    }

    /// No pod fails by itself in this test. So the pods that serve, without those for which an
    /// allowed request may still be carried out, are as many as the budget wants.
    fn check(&self) -> Result<(), String> {
        let may_go = |pod: &SimPod| {
            self.requests
                .iter()
                .any(|request| request.pod.uid == pod.uid && self.may_land(request))
        };
        let safe = self
            .pods
            .iter()
            .filter(|pod| pod.ready && !pod.going && !may_go(pod))
            .count();
        if safe < self.desired {
            Err(format!(
                "{safe} of {} pods stay, {} must",
                self.pods.len(),
                self.desired
            ))
        } else {
            Ok(())
        }
    }
}

fn most(most: i32) -> Amount {
    Amount::MaxUnavailable(IntOrString::Int(most))
}

fn history(planted: Planted, amount: &Amount, steps: &[Step]) -> Result<(), String> {
    let mut world = World::new(planted, amount.clone());
    for step in steps {
        world.take(step);
        world.check()?;
    }
    Ok(())
}

fn histories(
    planted: Planted,
    cases: u32,
    steps_in_all: &Cell<usize>,
) -> Option<(Vec<Step>, String)> {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let least = |least: i32| Amount::MinAvailable(IntOrString::Int(least));
    let amount = prop_oneof![(1i32..3).prop_map(most), (1i32..4).prop_map(least)];
    let strategy = (amount, prop::collection::vec(step(), 20..LONGEST));
    let ran = runner.run(&strategy, |(amount, steps)| {
        steps_in_all.set(steps_in_all.get() + steps.len());
        history(planted, &amount, &steps).map_err(TestCaseError::fail)
    });
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
fn each_interleaving_keeps_the_budget() {
    let asked = std::env::var("BERTH_BUDGET_STEPS")
        .ok()
        .map(|steps| steps.parse().unwrap());
    let steps: usize = asked.unwrap_or(STEPS);
    let taken = Cell::new(0);
    let cases = u32::try_from(steps / (LONGEST / 2 + 10)).unwrap();
    let found = histories(Planted::Nothing, cases.max(1), &taken);
    assert!(found.is_none(), "{found:#?}");
    assert!(taken.get() >= steps / 2, "{} steps", taken.get());
}

#[test]
fn planted_faults_are_found() {
    for planted in [
        Planted::GrantsFromCache,
        Planted::ExpiresEarly,
        Planted::ExpiresUnseen,
        Planted::OlderView,
        Planted::NamesForUids,
        Planted::SharedEntries,
    ] {
        assert!(
            histories(planted, ENOUGH, &Cell::new(0)).is_some(),
            "{planted:?} is not found"
        );
    }
}

/// Proptest hardly ever generates so long a history.
#[test]
fn pod_that_leader_sees_late_stays_charged() {
    let ask = |pod| Step::Ask {
        replica: 0,
        pod,
        operation: 0,
        has_other: false,
        is_own: false,
    };
    let count = || [Step::See(2), Step::Count(0), Step::See(0)];
    let mut steps = vec![Step::SeePods(0)];
    steps.extend(count());
    // One pod is deleted, and another replaces it, which the leader does not see yet.
    steps.extend([
        ask(0),
        Step::Validate(0),
        Step::Land {
            request: 0,
            lost: false,
        },
        Step::SeePods(0),
    ]);
    steps.extend(count());
    steps.extend([
        Step::Kubelet(0),
        Step::Replace,
        Step::Kubelet(0),
        ask(3),
        Step::Validate(0),
    ]);
    steps.extend(count());
    steps.extend([ask(0), Step::Validate(1), Step::SeePods(0)]);
    steps.extend(count());
    steps.extend([ask(1), Step::Validate(2)]);
    assert_eq!(history(Planted::Nothing, &most(2), &steps), Ok(()));
    assert!(history(Planted::UnseenIsGone, &most(2), &steps).is_err());
}

/// Nor does it generate this one.
#[test]
fn request_by_replica_with_skewed_clock_is_charged() {
    let ask = |replica, pod| Step::Ask {
        replica,
        pod,
        operation: 1,
        has_other: false,
        is_own: false,
    };
    let count = || [Step::SeePods(0), Step::See(2), Step::Count(0)];
    let mut steps: Vec<_> = count().into();
    // The replica whose clock is ahead allows an eviction that is never carried out.
    steps.extend([
        ask(1, 0),
        Step::Validate(0),
        Step::Land {
            request: 0,
            lost: true,
        },
    ]);
    steps.extend(count());
    // The drain tries again through the other replica, and that request may be carried out for a
    // minute.
    steps.extend([
        Step::Time(AHEAD + 5),
        ask(0, 0),
        Step::Validate(0),
        Step::Time(11),
    ]);
    steps.extend(count());
    steps.extend([ask(0, 1), Step::Validate(1)]);
    assert_eq!(history(Planted::Nothing, &most(1), &steps), Ok(()));
    assert!(history(Planted::TellsByClocks, &most(1), &steps).is_err());
}
