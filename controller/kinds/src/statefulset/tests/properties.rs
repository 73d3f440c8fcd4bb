//! Properties of whole histories: after every history, each decision keeps the order and the
//! limits, and in the end the pods match the spec.

use std::collections::BTreeMap;

use berth_workload::objects::ordinals::{Ordinals, ordinal_of};
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::{Action, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::simulation::World;

/// Something that happens to a StatefulSet.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Image(&'static str),
    Env(u8),
    Replicas(i32),
    Reserve(Value),
    Start(i32),
    Templates(&'static [&'static str]),
    Partition(i32),
    Pause(bool),
    AskToGo(u8),
    Break(u8),
    Fail(u8),
    Delete(u8),
    Orphan(u8),
    Kubelets,
    OneKubelet(u8),
    Time(i64),
}

/// Lists of claim templates.
const TEMPLATES: [&[&str]; 4] = [&[], &["data"], &["data", "log"], &["log", "more"]];

pub(super) fn change() -> impl Strategy<Value = Change> {
    let image = prop::sample::select(vec!["db:0", "db:1", "db:2", "bad:1"]);
    let reserve = prop::sample::select(vec![
        json!([]),
        json!([1]),
        json!(["0-1"]),
        json!([0, "2-3"]),
    ]);
    let templates = prop::sample::select(TEMPLATES.to_vec());
    prop_oneof![
        4 => image.prop_map(Change::Image),
        1 => (0u8..2).prop_map(Change::Env),
        3 => (0i32..6).prop_map(Change::Replicas),
        1 => reserve.prop_map(Change::Reserve),
        1 => (0i32..3).prop_map(Change::Start),
        2 => templates.prop_map(Change::Templates),
        2 => (0i32..6).prop_map(Change::Partition),
        1 => any::<bool>().prop_map(Change::Pause),
        2 => (0u8..8).prop_map(Change::AskToGo),
        2 => (0u8..8).prop_map(Change::Break),
        1 => (0u8..8).prop_map(Change::Fail),
        1 => (0u8..8).prop_map(Change::Delete),
        1 => (0u8..8).prop_map(Change::Orphan),
        5 => Just(Change::Kubelets),
        4 => (0u8..8).prop_map(Change::OneKubelet),
        3 => (0i64..5).prop_map(Change::Time),
    ]
}

pub(super) fn rolling(field: &str, value: &Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": {field: value}}})
}

fn set_templates(world: &mut World, names: &[&str]) {
    let template = |name: &&str| json!({"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    world.merge(&json!({"volumeClaimTemplates": names.iter().map(template).collect::<Vec<_>>()}));
}

pub(super) fn apply(world: &mut World, change: &Change) {
    let name = |ordinal: &u8| format!("db-{ordinal}");
    match change {
        Change::Image(image) => world.set_image(image),
        Change::Env(n) => {
            let env = json!([{"name": "A", "value": n.to_string()}]);
            let container = json!({"name": "main", "image": "db:0", "env": env});
            world.merge(&json!({"template": {"spec": {"containers": [container]}}}));
        }
        Change::Replicas(n) => world.edit(|spec| spec.replicas = Some(*n)),
        Change::Reserve(list) => world.merge(&json!({"reserveOrdinals": list})),
        Change::Start(n) => world.merge(&json!({"ordinals": {"start": n}})),
        Change::Templates(names) => set_templates(world, names),
        Change::Partition(n) => world.merge(&rolling("partition", &json!(n))),
        Change::Pause(paused) => world.merge(&rolling("paused", &json!(paused))),
        Change::AskToGo(n) => world.label(&name(n), "apps.kruise.io/specified-delete", "true"),
        Change::Break(n) => world.break_pod(&name(n)),
        Change::Fail(n) => world.fail(&name(n)),
        Change::Delete(n) => world.delete(&name(n)),
        Change::Orphan(n) => {
            if let Some(pod) = world.pods.get_mut(&name(n)) {
                pod["metadata"]["ownerReferences"] = json!([]);
            }
        }
        Change::Kubelets => world.run_kubelets(),
        Change::OneKubelet(n) => world.run_kubelet(&name(n)),
        Change::Time(seconds) => world.pass(*seconds),
    }
}

/// The parameters of a whole history.
#[derive(Debug, Clone)]
pub(super) struct Given {
    is_parallel: bool,
    policy: &'static str,
    max_unavailable: usize,
    retains: bool,
}

pub(super) fn given() -> impl Strategy<Value = Given> {
    let policy = prop::sample::select(vec!["InPlaceIfPossible", "ReCreate"]);
    (any::<bool>(), policy, 1usize..4, any::<bool>()).prop_map(
        |(is_parallel, policy, max_unavailable, retains)| Given {
            is_parallel,
            policy,
            max_unavailable,
            retains,
        },
    )
}

impl Given {
    pub(super) fn world(&self) -> World {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
        let retention = if self.retains { "Retain" } else { "Delete" };
        World::settled(
            3,
            json!({
                "podManagementPolicy": if self.is_parallel { "Parallel" } else { "OrderedReady" },
                "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": self.policy, "maxUnavailable": self.max_unavailable}},
                "volumeClaimTemplates": [claim],
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": retention},
            }),
        )
    }
}

/// The wanted ordinals, counted independently of the product.
pub(super) fn wanted(world: &World) -> Vec<i64> {
    let spec = &world.set.spec;
    let reserved = spec
        .reserve_ordinals
        .iter()
        .map(|entry| berth_api::fields::ordinals::reserved(entry).unwrap());
    let start = spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start);
    let replicas = usize::try_from(spec.replicas.unwrap()).unwrap();
    Ordinals::new(start, replicas, reserved).iter().collect()
}

/// The pods of the wanted ordinals that serve.
fn serving(world: &World, pods: &BTreeMap<i64, Pod>) -> Vec<i64> {
    let serves = |ordinal: &i64| {
        pods.get(ordinal)
            .is_some_and(|pod| availability(pod, 0, world.now()).is_available())
    };
    wanted(world).into_iter().filter(serves).collect()
}

fn pods(world: &World) -> BTreeMap<i64, Pod> {
    let all = world.all_pods().into_iter();
    all.filter_map(|pod| Some((ordinal_of("db", &pod.metadata.name)?, (*pod).clone())))
        .collect()
}

/// Makes one decision, and checks it against the laws.
fn step(world: &mut World, given: &Given, story: &str) -> Result<Plan, TestCaseError> {
    let (before, wanted) = (pods(world), wanted(world));
    let serving = serving(world, &before);
    let plan = world.plan();
    let ordinal = |name: &str| ordinal_of("db", name).unwrap();
    let mut goes = Vec::new();
    let mut comes = Vec::new();
    for action in plan.actions() {
        match action {
            Action::CreatePod { body } => {
                comes.push(ordinal(body.value()["metadata"]["name"].as_str().unwrap()))
            }
            Action::DeletePod { target } => goes.push(ordinal(&target.name)),
            Action::PatchPodStatus {
                target, conditions, ..
            } if conditions
                .iter()
                .any(|c| &*c.type_ == "InPlaceUpdateReady" && &*c.status == "False") =>
            {
                goes.push(ordinal(&target.name));
            }
            _ => {}
        }
    }
    goes.dedup();
    prop_assert!(
        comes.iter().all(|ordinal| wanted.contains(ordinal)),
        "only what is wanted is made: {comes:?} {story}"
    );
    let taken = goes
        .iter()
        .filter(|ordinal| serving.contains(ordinal))
        .count();
    let left = serving.len() - taken;
    let floor = wanted.len().saturating_sub(given.max_unavailable);
    prop_assert!(
        taken == 0 || left >= floor,
        "{left} are left of {}: {goes:?} {story}",
        wanted.len()
    );
    if !given.is_parallel {
        prop_assert!(comes.len() <= 1, "{comes:?} {story}");
        if let Some(new) = comes.first() {
            let lower = wanted.iter().filter(|ordinal| *ordinal < new);
            prop_assert!(
                lower.clone().all(|ordinal| serving.contains(ordinal)),
                "{new} {lower:?} {serving:?} {story}"
            );
        }
        // A batch of an update begins while all pods serve, and nothing else begins with it.
        let has_batch = taken > 0 && goes.iter().all(|ordinal| wanted.contains(ordinal));
        let motions = comes.len() + if has_batch { 1 } else { goes.len() };
        prop_assert!(
            motions <= 1 || taken == 0 && given.max_unavailable > 1,
            "{goes:?} {comes:?} {story}"
        );
        let is_whole = serving.len() == wanted.len() && before.len() == wanted.len();
        prop_assert!(!has_batch || is_whole, "{goes:?} of {serving:?} {story}");
    }
    world.step();
    let templates: Vec<_> = world
        .set
        .spec
        .volume_claim_templates
        .iter()
        .map(|t| t.name().into())
        .collect();
    for (ordinal, pod) in pods(world) {
        for claim in templates
            .iter()
            .chain(&pod.spec.claim_volumes)
            .map(|template| format!("{template}-db-{ordinal}"))
        {
            let Some(stored) = world.claims.stored().get(&claim) else {
                continue;
            };
            let owners = stored["metadata"]["ownerReferences"].as_array().unwrap();
            let goes_along = owners.iter().any(|owner| owner["uid"] == *pod.metadata.uid);
            prop_assert!(
                !goes_along || !wanted.contains(&ordinal),
                "{claim} goes with a pod in range: {story}"
            );
        }
    }
    Ok(plan)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_rollout_ends_and_no_step_breaks_a_rule(
        changes in prop::collection::vec(change(), 1..30), given in given(), replicas in 1i32..6, partition in 0i32..4,
        templates in prop::sample::select(TEMPLATES.to_vec()),
    ) {
        let mut world = given.world();
        let story = format!("{given:?} {changes:?} {templates:?}");
        for change in &changes {
            apply(&mut world, change);
            step(&mut world, &given, &story)?;
        }
        world.set_image("db:last");
        set_templates(&mut world, templates);
        world.merge(&json!({"replicas": replicas}));
        world.merge(&rolling("paused", &json!(false)));
        world.merge(&rolling("partition", &json!(partition)));
        for round in 0.. {
            prop_assert!(round < 400, "it does not come to rest: {story} {:#?}", world.plan());
            let plan = step(&mut world, &given, &story)?;
            let before = world.pods.clone();
            world.run_kubelets();
            world.pass(1);
            if plan.is_idle() && world.pods == before && plan.look_again.is_none() && world.plan().is_idle() {
                break;
            }
        }
        let pods = pods(&world);
        // A broken pod that must stay as it is blocks the others, and the condition says so. With
        // ordered updates, so do two broken pods that must be deleted: the higher one waits for the
        // lower one.
        let blocked = world.status().conditions.into_iter().find(|c| c.type_ == "Blocked");
        if let Some(blocked) = blocked {
            let goes = pods.keys().any(|ordinal| !wanted(&world).contains(ordinal));
            let stays = partition > 0 || (goes && !given.is_parallel);
            prop_assert!(stays && blocked.reason != "InvalidSpec", "{}: {story}", blocked.message);
            return Ok(());
        }
        prop_assert_eq!(pods.keys().copied().collect::<Vec<_>>(), wanted(&world), "{}", story);
        let staying = usize::try_from(partition).unwrap();
        let image = |pod: &Pod| pod.spec.containers[0].image.to_string();
        for (rank, (ordinal, pod)) in pods.iter().enumerate() {
            let mounts = |template: &&str| pod.spec.claim_volumes.iter().any(|volume| **volume == **template);
            let is_last = image(pod) == "db:last" && templates.iter().all(mounts);
            prop_assert!(is_last || rank < staying, "{ordinal} is {} with {:?} {story}", image(pod), pod.spec.claim_volumes);
        }
    }
}
