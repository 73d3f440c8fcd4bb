//! Histories in which the controller sees changes late or never, and dies between any two writes.
//! No write breaks a limit or skips a hook, each pod keeps its claims, and in the end the pods
//! match the spec.
//!
//! `BERTH_MODEL_STEPS` is the number of steps in all histories together, and `BERTH_MODEL_SEED` the
//! seed of the histories. Proptest generates and shrinks the histories.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use berth_api::fields::template::VolumeClaimTemplate;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Value, json};

use super::super::ids::instance;
use super::super::simulation::owner::{FINALIZER, LABEL};
use super::super::simulation::views::{Kind, Planted, Views};
use super::super::simulation::{World, partition, template};

/// The image of the last template, which no history has.
const LAST: &str = "web:last";
/// Steps in `make test`.
const STEPS: usize = 15_000;
/// Most steps in one history, without the steps until it comes to rest.
const LONGEST: usize = 300;
/// Most histories are shorter than this, and all are if a planted fault must be found: short
/// histories are shrunk fastest.
const SHORT: usize = 60;
/// A planted fault is found within this many histories.
const ENOUGH: u32 = 2_000;

/// A step of a history.
#[derive(Debug, Clone)]
enum Step {
    Image(&'static str),
    Replicas(i32),
    Partition(i32),
    AskToGo(usize),
    /// A pod loses a label of the selector.
    Stray(usize),
    /// A pod is evicted by its node.
    End(usize),
    Kubelets,
    OneKubelet(usize),
    /// A kubelet has seen a pod's spec, and has not reached its containers yet.
    Acknowledge(usize),
    Time(i64),
    /// The owner of the hooks does the work that each pod's state asks for.
    Owner,
    /// Objects without an owner are deleted.
    Garbage,
    /// Events of a kind arrive.
    Tell(Kind, usize),
    /// A watch breaks off, and its objects are listed again.
    List(Kind),
    /// The controller decides and writes.
    Act,
    /// The same, and the controller dies after so many writes.
    Die(usize),
    /// The controller dies at rest.
    Restart,
    /// The CloneSet is deleted without its pods, and applied again.
    Orphan,
}

fn step() -> impl Strategy<Value = Step> {
    let image = prop::sample::select(vec!["web:0", "web:1", "web:2"]);
    let kind = || prop::sample::select(Kind::ALL.to_vec());
    prop_oneof![
        3 => image.prop_map(Step::Image),
        2 => (0i32..6).prop_map(Step::Replicas),
        1 => (0i32..6).prop_map(Step::Partition),
        2 => (0usize..6).prop_map(Step::AskToGo),
        1 => (0usize..6).prop_map(Step::Stray),
        1 => (0usize..6).prop_map(Step::End),
        3 => Just(Step::Kubelets),
        4 => (0usize..6).prop_map(Step::OneKubelet),
        2 => (0usize..6).prop_map(Step::Acknowledge),
        3 => (0i64..5).prop_map(Step::Time),
        3 => Just(Step::Owner),
        1 => Just(Step::Garbage),
        14 => (kind(), 1usize..5).prop_map(|(kind, events)| Step::Tell(kind, events)),
        2 => kind().prop_map(Step::List),
        10 => Just(Step::Act),
        4 => (0usize..5).prop_map(Step::Die),
        1 => Just(Step::Restart),
        1 => Just(Step::Orphan),
    ]
}

/// The parameters of a whole history.
#[derive(Debug, Clone)]
struct Given {
    policy: &'static str,
    max_unavailable: usize,
    max_surge: usize,
    grace: i64,
    hooks: Hooks,
    /// Each pod has a claim. The value says whether another pod may have the claim afterwards.
    claims: Option<bool>,
    planted: Planted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hooks {
    None,
    Labels,
    /// Finalizers, and a pod that a hook holds takes no traffic.
    Finalizers,
}

impl Hooks {
    fn lifecycle(self) -> Value {
        let hook = match self {
            Self::None => return Value::Null,
            Self::Labels => json!({"labelsHandler": {LABEL: "on"}}),
            Self::Finalizers => json!({"finalizersHandler": [FINALIZER], "markPodNotReady": true}),
        };
        json!({"preDelete": hook, "inPlaceUpdate": hook, "preNormal": hook})
    }
}

fn given(planted: Planted) -> impl Strategy<Value = Given> {
    let limits = prop_oneof![(1usize..4, 0usize..3), (Just(0), 1usize..3)];
    let policy = prop::sample::select(vec!["InPlaceIfPossible", "ReCreate"]);
    let hooks = prop::sample::select(vec![
        Hooks::None,
        Hooks::None,
        Hooks::Labels,
        Hooks::Finalizers,
    ]);
    let claims = prop::sample::select(vec![None, None, Some(false), Some(true)]);
    (
        policy,
        limits,
        prop::sample::select(vec![0, 3]),
        hooks,
        claims,
    )
        .prop_map(
            move |(policy, (max_unavailable, max_surge), grace, hooks, claims)| Given {
                policy,
                max_unavailable,
                max_surge,
                grace,
                hooks,
                claims,
                planted,
            },
        )
}

impl Given {
    fn world(&self) -> World {
        let rolling = json!({
            "podUpdatePolicy": self.policy, "maxUnavailable": self.max_unavailable, "maxSurge": self.max_surge,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": self.grace},
        });
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let mut world = World::new(3, template("web:0"), strategy);
        world.lingers = true;
        if let Some(reuse) = self.claims {
            let spec = &mut Arc::make_mut(&mut world.set).spec;
            spec.scale_strategy.enable_pvc_reuse = reuse;
            spec.volume_claim_templates = vec![VolumeClaimTemplate::from(&json!({
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }))];
        }
        world.set_lifecycle(self.hooks.lifecycle());
        world.settle_with_owner();
        world
    }
}

/// A history that broke a law: its steps, line by line, and the fault.
struct History {
    views: Views,
    given: Given,
    told: Vec<String>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The steps that led to the fault say more than the last steps, which follow by themselves.
        self.told
            .iter()
            .take(80)
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl History {
    fn begin(given: Given) -> Self {
        let views = Views::of(given.world(), given.planted);
        Self {
            views,
            given,
            told: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.told.push(format!("{step:?}"));
        let world = &mut self.views.world;
        match step {
            Step::Image(image) => {
                world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(image))
            }
            Step::Replicas(n) => Arc::make_mut(&mut world.set).spec.replicas = Some(*n),
            Step::Partition(n) => world.edit_rolling_update("partition", Value::from(*n)),
            Step::AskToGo(at) => world.ask_to_go(*at),
            Step::Stray(at) => world.label(*at, "app", "debug"),
            Step::End(at) => {
                if let Some(name) = world.pods.keys().nth(*at).cloned() {
                    world.end(&name, "Failed", "Evicted");
                }
            }
            Step::Kubelets => world.run_kubelets(),
            Step::OneKubelet(at) => world.run_kubelet(*at),
            Step::Acknowledge(at) => world.acknowledge(*at),
            Step::Time(seconds) => world.pass(*seconds),
            Step::Owner => drop(world.serve_hooks()),
            Step::Garbage => world.collect_garbage(),
            Step::Tell(kind, events) => self.views.tell(*kind, *events),
            Step::List(kind) => self.views.list(*kind),
            Step::Act => self.act(usize::MAX)?,
            Step::Die(writes) => self.act(*writes)?,
            Step::Restart => self.views.begin_life(),
            Step::Orphan => self.views.orphan(),
        }
        self.views.record();
        self.has_its_claims()
    }

    /// Every pod that may run has its claims, and no such claim is being deleted.
    fn has_its_claims(&self) -> Result<(), TestCaseError> {
        if self.given.claims.is_none() {
            return Ok(());
        }
        let world = &self.views.world;
        let claims = world.claims.seen();
        let sound: BTreeSet<&str> = claims
            .iter()
            .filter(|c| !c.is_going())
            .map(|c| &*c.metadata.name)
            .collect();
        for pod in world
            .pods
            .values()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        {
            for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
                let claim = volume["persistentVolumeClaim"]["claimName"]
                    .as_str()
                    .unwrap_or_default();
                prop_assert!(
                    sound.contains(claim),
                    "a pod lacks {claim} under {:?}:{self}",
                    self.given
                );
            }
        }
        Ok(())
    }

    /// Checks every write against the limits of the spec that the controller sees and of all later
    /// ones.
    fn act(&mut self, writes: usize) -> Result<(), TestCaseError> {
        let replicas = || {
            self.views
                .specs()
                .map(|set| usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0))
        };
        // The controller cannot make up for pods that another writer has taken away and that it has
        // not seen.
        let lost = self.views.unseen_strays();
        let floor = replicas()
            .min()
            .unwrap_or(0)
            .saturating_sub(self.given.max_unavailable + lost);
        let ceiling = replicas().max().unwrap_or(0) + self.given.max_surge;
        let most = replicas().max().unwrap_or(0);
        let kept = self
            .views
            .specs()
            .map(partition)
            .min()
            .unwrap_or(0)
            .saturating_sub(lost);
        let mut before = self.views.tally();
        for (action, after) in self.views.act(writes) {
            self.told.push(format!("  {action}: {after}"));
            prop_assert!(
                after.available >= before.available.min(floor),
                "maxUnavailable of {:?}:{self}",
                self.given
            );
            prop_assert!(
                after.pods <= before.pods.max(ceiling),
                "maxSurge of {:?}:{self}",
                self.given
            );
            let splits = before.pods < most
                || after.old >= before.old.min(kept)
                || after.to_delete < before.to_delete;
            prop_assert!(
                splits,
                "partition of {:?}, {kept} stay: {before}, then{self}",
                self.given
            );
            before = after;
        }
        prop_assert!(
            self.views.faults.is_empty(),
            "{:?} under {:?}:{self}",
            self.views.faults,
            self.given
        );
        Ok(())
    }

    /// The controller sees everything, and the spec no longer changes: with a last template, or the
    /// present one.
    fn settle(&mut self, replicas: i32, renews: bool) -> Result<(), TestCaseError> {
        self.told.push(format!(
            "{replicas} replicas, no partition, another template: {renews}"
        ));
        if renews {
            self.views.world.set_template(template(LAST));
        }
        Arc::make_mut(&mut self.views.world.set).spec.replicas = Some(replicas);
        self.views.world.edit_rolling_update("partition", json!(0));
        self.views.record();
        for _ in 0..200 {
            Kind::ALL
                .into_iter()
                .for_each(|kind| self.views.tell(kind, usize::MAX));
            self.act(usize::MAX)?;
            let before = self.views.world.pods.clone();
            self.views.world.serve_hooks();
            self.views.world.run_kubelets();
            self.views.world.collect_garbage();
            let nodes_rest = self.views.world.pods == before;
            self.views.world.pass(1);
            self.views.record();
            self.has_its_claims()?;
            if nodes_rest && self.views.rests() && self.views.sees_all() {
                self.views.world.clean_up();
                return self.check(replicas);
            }
        }
        Err(TestCaseError::fail(format!(
            "it does not come to rest under {:?}:{self}",
            self.given
        )))
    }

    fn check(&self, replicas: i32) -> Result<(), TestCaseError> {
        let world = &self.views.world;
        prop_assert_eq!(
            world.pods.len(),
            usize::try_from(replicas).unwrap_or(0),
            "pods under {:?}:{}",
            self.given,
            self
        );
        let wanted = world.template_image();
        let exact = world.created_from().iter().all(|image| *image == wanted);
        prop_assert!(
            exact,
            "what runs is what the spec says under {:?}:{self}",
            self.given
        );
        let tally = world.tally();
        prop_assert_eq!(
            tally.available,
            tally.pods,
            "all are back in service under {:?}:{}",
            self.given,
            self
        );
        if self.given.claims == Some(false) {
            let claims = world.claims.seen();
            let of_a_pod = |id: &str| world.pods.contains_key(&format!("web-{id}"));
            let left = claims
                .iter()
                .find(|claim| !of_a_pod(instance(&claim.metadata)));
            prop_assert!(
                left.is_none(),
                "{left:?} is left behind under {:?}:{self}",
                self.given
            );
        }
        Ok(())
    }
}

/// Runs this many histories at a time. Returns the number of steps, and the first law that was
/// broken, in its shortest form. The seed determines the histories.
fn run(planted: Planted, histories: u32, least: usize, seed: u64) -> (usize, Option<String>) {
    let taken = Cell::new(0);
    let config = Config {
        cases: histories,
        failure_persistence: None,
        ..Config::default()
    };
    let long = u32::from(planted == Planted::Nothing);
    let steps = prop_oneof![
        2 => prop::collection::vec(step(), 1..SHORT),
        long => prop::collection::vec(step(), SHORT..LONGEST),
    ];
    let drawn = (steps, given(planted), 0i32..6, any::<bool>());
    let (mut found, mut batch) = (None, 0u64);
    while found.is_none() && taken.get() <= least {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&batch.to_le_bytes());
        batch += 1;
        let chance = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let ran = TestRunner::new_with_rng(config.clone(), chance).run(
            &drawn,
            |(steps, given, replicas, renews)| {
                let mut history = History::begin(given);
                steps.iter().try_for_each(|step| history.take(step))?;
                history.settle(replicas, renews)?;
                taken.set(taken.get() + steps.len());
                Ok(())
            },
        );
        found = match ran {
            Ok(()) => None,
            Err(TestError::Fail(reason, _)) => Some(reason.message().to_owned()),
            Err(TestError::Abort(reason)) => Some(reason.message().to_owned()),
        };
    }
    (taken.get(), found)
}

/// `make test` runs the same histories every time, so that a change makes it fail, and not chance.
/// If the number of steps is given, every run has other histories.
const SEED: u64 = 18;

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "how long a test goes on is no decision"
)]
fn late_views_never_break_a_promise() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|number| number.parse::<u64>().unwrap())
    };
    let asked = number("BERTH_MODEL_STEPS").map(|steps| usize::try_from(steps).unwrap());
    let seed = number("BERTH_MODEL_SEED").unwrap_or_else(|| asked.map_or(SEED, |_| any_number()));
    let (taken, found) = run(Planted::Nothing, 100, asked.unwrap_or(STEPS), seed);
    assert_eq!(
        found, None,
        "after {taken} steps of BERTH_MODEL_SEED={seed}"
    );
    println!("BERTH_MODEL_SEED={seed}: {taken} steps, nothing found");
}

/// The planted fault breaks one of these laws, in every set of histories.
fn assert_found(planted: Planted, laws: &[&str]) {
    let (_, found) = run(planted, ENOUGH, 0, SEED);
    let found = found.unwrap_or_else(|| panic!("{planted:?} breaks one of {laws:?}"));
    assert!(laws.iter().any(|law| found.contains(law)), "{found}");
}

#[test]
fn model_finds_a_controller_blind_to_earlier_ones() {
    assert_found(
        Planted::KnowsOnlyItsLife,
        &["back in service", "come to rest"],
    );
}

#[test]
fn model_finds_a_controller_blind_to_its_own_writes() {
    assert_found(
        Planted::SeesNotItsOwn,
        &["maxSurge", "maxUnavailable", "partition of"],
    );
}

#[test]
fn model_finds_a_controller_that_misses_deletions() {
    assert_found(Planted::RemembersTheGone, &["pods under", "come to rest"]);
}

#[test]
fn model_finds_a_controller_that_trusts_owner_uids() {
    assert_found(
        Planted::BelievesUids,
        &["maxUnavailable", "maxSurge", "pods under", "come to rest"],
    );
}

/// A random number, which differs in every run.
fn any_number() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

mod histories;
