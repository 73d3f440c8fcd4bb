//! Properties of whole histories: no node has a pod too many, the budget holds after every write,
//! no node that the update leaves out gets a revision that no such node has, and in the end each
//! node has the pod that it must have.

use std::collections::BTreeMap;

use berth_api::names::annotation::{DAEMONSET_HOLD_REVISION, RESTARTED_AT};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::{Fit, Placement};
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::{Action, Plan};
use berth_workload::update::inplace::steps;
use berth_workload::update::revision::{self, REVISION_LABEL};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::node_of;
use super::super::places::Places;
use super::super::settings::{Settings, settings};
use super::super::simulation::World;

/// Something that happens to a DaemonSet or its nodes.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Image(&'static str),
    Restart(u8),
    Tolerate(bool),
    Strategy(Value),
    Partition(Value),
    Pause(bool),
    Hold(bool),
    Select(Option<&'static str>),
    NodeLabel(u8, &'static str),
    MinReady(i32),
    NodeJoins(u8),
    NodeGoes(u8),
    NodeReady(u8, bool),
    Taint(u8, Option<&'static str>),
    AskToGo(u8),
    Break(u8),
    End(u8),
    Delete(u8),
    Orphan(u8),
    Daemons,
    Twin(i64, &'static str, u8),
    Kubelets,
    OneKubelet(u8),
    Time(i64),
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    let strategies = vec![
        json!({"rollingUpdateType": "Standard", "maxUnavailable": 1, "maxSurge": null}),
        json!({"rollingUpdateType": "Standard", "maxUnavailable": "50%", "maxSurge": 0}),
        json!({"rollingUpdateType": "Standard", "maxUnavailable": null, "maxSurge": 1}),
        json!({"rollingUpdateType": "Standard", "maxUnavailable": 0, "maxSurge": "40%"}),
        json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 2, "maxSurge": null}),
    ];
    let effects = vec![None, Some("NoSchedule"), Some("NoExecute")];
    prop_oneof![
        4 => prop::sample::select(vec!["log:0", "log:1", "log:2", "bad:1"]).prop_map(Change::Image),
        2 => (0u8..3).prop_map(Change::Restart),
        1 => any::<bool>().prop_map(Change::Tolerate),
        2 => prop::sample::select(strategies).prop_map(Change::Strategy),
        2 => prop::sample::select(vec![json!(0), json!(1), json!("50%"), json!(9)]).prop_map(Change::Partition),
        1 => any::<bool>().prop_map(Change::Pause),
        2 => any::<bool>().prop_map(Change::Hold),
        1 => prop::sample::select(vec![None, Some("a"), Some("b")]).prop_map(Change::Select),
        2 => (0u8..5, prop::sample::select(vec!["a", "b"])).prop_map(|(node, zone)| Change::NodeLabel(node, zone)),
        1 => (0i32..4).prop_map(Change::MinReady),
        2 => (0u8..5).prop_map(Change::NodeJoins),
        1 => (0u8..5).prop_map(Change::NodeGoes),
        2 => (0u8..5, any::<bool>()).prop_map(|(node, ready)| Change::NodeReady(node, ready)),
        2 => (0u8..5, prop::sample::select(effects)).prop_map(|(node, effect)| Change::Taint(node, effect)),
        1 => (0u8..5).prop_map(Change::AskToGo),
        2 => (0u8..5).prop_map(Change::Break),
        1 => (0u8..5).prop_map(Change::End),
        1 => (0u8..5).prop_map(Change::Delete),
        1 => (0u8..5).prop_map(Change::Orphan),
        2 => Just(Change::Daemons),
        1 => (0i64..9, prop::sample::select(vec!["a", "b"]), 0u8..5)
            .prop_map(|(number, name, node)| Change::Twin(number, name, node)),
        5 => Just(Change::Kubelets),
        4 => (0u8..5).prop_map(Change::OneKubelet),
        3 => (0i64..5).prop_map(Change::Time),
    ]
}

pub(super) fn rolling(fields: &Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": fields}})
}

pub(super) fn apply(world: &mut World, change: &Change) {
    let node = |at: &u8| format!("n{at}");
    let pod = |world: &World, at: &u8| world.pod_of(&node(at));
    match change {
        Change::Image(image) => world.set_image(image),
        Change::Restart(n) => {
            let at = json!({RESTARTED_AT: format!("2026-11-26T12:00:0{n}Z")});
            world.merge(&json!({"template": {"metadata": {"annotations": at}}}));
        }
        Change::Tolerate(taint) => {
            let tolerations = taint.then(|| json!([{"key": "k", "operator": "Exists"}]));
            world.merge(&json!({"template": {"spec": {"tolerations": tolerations}}}));
        }
        Change::Strategy(fields) => world.merge(&rolling(fields)),
        Change::Partition(value) => world.merge(&rolling(&json!({"partition": value}))),
        Change::Pause(paused) => world.merge(&rolling(&json!({"paused": paused}))),
        Change::Hold(holds) => world.annotate(
            DAEMONSET_HOLD_REVISION,
            if *holds { "true" } else { "false" },
        ),
        Change::Select(zone) => {
            let labels = zone.map(|zone| json!({"matchLabels": {"zone": zone}}));
            world.merge(&rolling(&json!({"selector": labels})));
        }
        Change::NodeLabel(at, zone) => {
            world.change_node(&node(at), &json!({"metadata": {"labels": {"zone": zone}}}));
        }
        Change::MinReady(seconds) => world.merge(&json!({"minReadySeconds": seconds})),
        Change::NodeJoins(at) => {
            if !world.nodes.contains_key(&node(at)) {
                world.add_node(&node(at));
            }
        }
        Change::NodeGoes(at) => drop(world.nodes.remove(&node(at))),
        Change::NodeReady(at, ready) => world.set_ready(&node(at), *ready),
        Change::Taint(at, effect) => {
            let taints: Vec<_> = effect
                .iter()
                .map(|effect| json!({"key": "k", "effect": effect}))
                .collect();
            world.change_node(&node(at), &json!({"spec": {"taints": taints}}));
        }
        Change::AskToGo(at) => {
            world.label(&pod(world, at), "apps.kruise.io/specified-delete", "true")
        }
        Change::Break(at) => world.break_pod(&pod(world, at)),
        Change::End(at) => world.end(&pod(world, at), "Failed"),
        Change::Delete(at) => world.delete(&pod(world, at)),
        Change::Orphan(at) => {
            let name = pod(world, at);
            if let Some(pod) = world.pods.get_mut(&name) {
                pod["metadata"]["ownerReferences"] = json!([]);
            }
        }
        Change::Daemons => world.run_daemons(),
        // Another controller wrote a revision that exists already, and created a pod with it.
        Change::Twin(number, twin, at) => {
            let name = pod(world, at);
            let copied = world.duplicate_revision(*number, &format!("log-twin{twin}"));
            let is_of_it = |pod: &&std::sync::Arc<Pod>| {
                *pod.metadata.name == *name
                    && !steps::is_under_way(pod)
                    && pod.metadata.label(REVISION_LABEL) == copied.as_deref()
            };
            if copied.is_some() && world.all_pods().iter().any(|pod| is_of_it(&pod)) {
                world.label(&name, REVISION_LABEL, &format!("twin{twin}"));
            }
        }
        Change::Kubelets => world.run_kubelets(),
        Change::OneKubelet(at) => world.run_kubelet(&pod(world, at)),
        Change::Time(seconds) => world.pass(*seconds),
    }
}

/// Pods that are not being deleted, and the ready ones among them, by node.
fn by_node(world: &World) -> BTreeMap<String, (usize, usize)> {
    let mut all = BTreeMap::new();
    for pod in world.all_pods().iter().filter(|pod| pod.is_active()) {
        let (active, ready): &mut (usize, usize) = all.entry(node_of(pod).to_owned()).or_default();
        *active += 1;
        *ready += usize::from(availability(pod, 0, world.now()).is_ready());
    }
    all
}

/// Nodes that the update leaves out, if they keep their revision, each with the revisions of all
/// their pods.
fn of_left_out<'a>(
    world: &World,
    places: &Places<'a>,
    settings: &Settings,
) -> BTreeMap<&'a str, Vec<String>> {
    let annotations = world.set.metadata.annotations.as_ref();
    if annotations
        .and_then(|all| all.get(DAEMONSET_HOLD_REVISION))
        .is_none_or(|value| value != "true")
    {
        return BTreeMap::new();
    }
    let is_selected = |node: &Node| {
        settings
            .selector
            .as_ref()
            .is_none_or(|it| it.matches(|key| node.metadata.label(key)))
    };
    let selected = places
        .wanted()
        .rev()
        .filter(|(_, place)| is_selected(place.node))
        .map(|(name, _)| name);
    let allowed: Vec<_> = selected
        .take(places.wanted().count() - settings.partition)
        .collect();
    let left_out = || places.wanted().filter(|(name, _)| !allowed.contains(name));
    let pods = left_out().flat_map(|(_, place)| place.active());
    let revisions: Vec<_> = pods
        .filter_map(|pod| pod.metadata.label(REVISION_LABEL))
        .map(str::to_owned)
        .collect();
    left_out()
        .map(|(name, _)| (name, revisions.clone()))
        .collect()
}

/// Checks that a plan makes only allowed writes.
fn check(world: &World, plan: &Plan) -> Result<(), TestCaseError> {
    let snapshot = world.snapshot();
    let template = snapshot.set.spec.template.value();
    let places = Places::new(&snapshot, &template);
    let settings = settings(&snapshot, &template, places.wanted().count()).unwrap();
    let pods: BTreeMap<_, _> = snapshot
        .pods
        .iter()
        .map(|pod| (pod.metadata.uid.to_string(), pod))
        .collect();
    let before = by_node(world);
    let of_left_out = of_left_out(world, &places, &settings);
    let mut made = Vec::new();
    let mut taken = 0;
    for action in plan.actions() {
        match action {
            Action::CreatePod { body } => {
                let pod: Pod = body.read().unwrap();
                let place = &places.by_node[node_of(&pod)];
                prop_assert_eq!(
                    place.fit,
                    Fit::Wanted,
                    "a pod for a node that shall have none"
                );
                let own = Placement::of_daemons(&body.value()).fit(place.node);
                prop_assert_eq!(own, Fit::Wanted, "a pod of a revision that has none there");
                made.push(node_of(&pod).to_owned());
                let most = usize::from(settings.max_surge > 0);
                let there = before.get(node_of(&pod)).map_or(0, |(active, _)| *active);
                prop_assert!(
                    there <= most && place.pods.len() <= most,
                    "{} has {} pods",
                    node_of(&pod),
                    there
                );
                let is_kept = of_left_out.get(node_of(&pod)).is_none_or(|known| {
                    known.is_empty()
                        || known.iter().any(|one| {
                            revision::same(
                                one,
                                pod.metadata.label(REVISION_LABEL).unwrap_or_default(),
                            )
                        })
                });
                prop_assert!(
                    is_kept,
                    "{} is left out, and gets what no such node has",
                    node_of(&pod)
                );
            }
            // A label takes no pod out of service.
            Action::PatchPod { patch, .. } if !patch.restarts() => {}
            Action::DeletePod { target } | Action::PatchPod { target, .. } => {
                let pod = pods[&target.uid];
                let place = places.by_node.get(node_of(pod));
                let is_wanted = place.is_some_and(|place| place.is_wanted());
                let alone = before
                    .get(node_of(pod))
                    .is_some_and(|(active, _)| *active == 1);
                let is_ready = availability(pod, 0, world.now()).is_ready();
                taken += usize::from(is_wanted && alone && is_ready);
            }
            _ => {}
        }
    }
    let is_away = |pods: &[&std::sync::Arc<Pod>]| {
        !pods
            .iter()
            .any(|pod| availability(pod, settings.min_ready_seconds, world.now()).is_available())
    };
    // A left-out node stays empty as long as it does not match the template of the revision for
    // such nodes.
    let stays_empty = |name: &str, pods: &[&std::sync::Arc<Pod>]| {
        pods.is_empty() && of_left_out.contains_key(name) && !made.iter().any(|node| node == name)
    };
    let is_counted =
        |name: &str, pods: &[&std::sync::Arc<Pod>]| is_away(pods) && !stays_empty(name, pods);
    let away = places
        .wanted()
        .filter(|(name, place)| is_counted(name, &place.pods))
        .count();
    // If only a surge is allowed, requested deletions happen one at a time.
    let most = settings.max_unavailable.max(1);
    prop_assert!(
        taken == 0 || away + taken <= most,
        "{taken} taken, {away} are away already, {most} may be"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_keep_pod_count_and_budget(
        changes in prop::collection::vec((change(), any::<bool>()), 1..60)
    ) {
        let mut world = World::settled(3, json!({}));
        for (change, decides) in &changes {
            apply(&mut world, change);
            if *decides {
                let plan = world.plan();
                check(&world, &plan)?;
                world.step();
            }
        }
        // In the end all is well: a working image repairs broken pods.
        for node in world.nodes.keys().cloned().collect::<Vec<_>>() {
            world.set_ready(&node, true);
        }
        world.merge(&rolling(&json!({"partition": 0, "paused": false, "selector": null})));
        world.set_image("log:9");
        world.pass(3600);
        world.settle();
        let snapshot = world.snapshot();
        let template = snapshot.set.spec.template.value();
        let places = Places::new(&snapshot, &template);
        for (name, place) in &places.by_node {
            let images: Vec<_> = place.pods.iter().map(|pod| &*pod.spec.containers[0].image).collect();
            match place.fit {
                Fit::Wanted => prop_assert_eq!(images, ["log:9"], "{}", name),
                Fit::MayStay => prop_assert!(images.len() <= 1, "{name} {images:?}"),
                Fit::Unwanted => prop_assert!(images.is_empty(), "{name} {images:?}"),
            }
        }
        let at = &template["metadata"]["annotations"][RESTARTED_AT];
        for pod in places.wanted().flat_map(|(_, place)| &place.pods) {
            let created = &world.pods[&*pod.metadata.name]["created"]["main"];
            prop_assert_eq!(&created[RESTARTED_AT], at, "restarted when the template says");
        }
        prop_assert_eq!(revision::duplicates(&snapshot.revisions), []);
        let status = world.status();
        prop_assert_eq!(status.number_available, status.desired_number_scheduled);
        prop_assert!(status.conditions.is_empty(), "{:?}", status.conditions);
    }
}
