//! The lines above the tree.

use std::collections::BTreeSet;

use berth_controller::plugin::Explained;
use serde_json::Value;

use super::health::{Health, State, rolling};
use super::revisions::{is_own, revision_of, update_revision};
use super::tone::Tone;
use super::world::World;
use crate::objects::{items, name, namespace, text};

use berth_workload::update::revision::same;

/// The fields, with their values.
pub fn header(
    world: &World,
    plan: Option<&Explained>,
    state: &State,
) -> Vec<(&'static str, String)> {
    let object = &world.object;
    let mut lines = vec![("Name", name(object).to_owned())];
    if !namespace(object).is_empty() {
        lines.push(("Namespace", namespace(object).to_owned()));
    }
    let symbol = Tone::from(state.health).symbol();
    let word = state.health.word();
    // The whole sentence is in the line Blocked.
    let status = match state.health {
        Health::Blocked => format!("{symbol} {}", state.short()),
        _ => format!("{symbol} {word}: {}", state.sentence),
    };
    lines.push(("Status", status));
    lines.push(("Strategy", strategy(world.plural, object)));
    lines.push(("Images", images(world).join(", ")));
    lines.push(("Replicas", replicas(world, state)));
    let of_plan = plan.and_then(|plan| plan.blocked.as_ref());
    let of_status = (state.health == Health::Blocked).then_some(state.sentence.as_str());
    let blocked = of_plan
        .map(|blocked| text(blocked, "/message"))
        .or(of_status);
    lines.extend(blocked.map(|blocked| ("Blocked", blocked.to_owned())));
    lines
}

fn replicas(world: &World, state: &State) -> String {
    let counts = state.counts;
    if world.plural == "broadcastjobs" {
        let status = |field: &str| world.object["status"][field].as_i64().unwrap_or_default();
        let (active, succeeded, failed) = (status("active"), status("succeeded"), status("failed"));
        return format!(
            "desired {}  active {active}  succeeded {succeeded}  failed {failed}",
            counts.desired
        );
    }
    format!(
        "desired {}  current {}  updated {}  ready {}  available {}",
        counts.desired, counts.current, counts.updated, counts.ready, counts.available
    )
}

/// The fields of the strategy that decide how the rollout goes.
fn strategy(plural: &str, object: &Value) -> String {
    let type_ = text(object, "/spec/updateStrategy/type");
    let mut parts = Vec::new();
    if plural != "broadcastjobs" {
        let default = if plural == "uniteddeployments" {
            "Manual"
        } else {
            "RollingUpdate"
        };
        parts.push(if type_.is_empty() { default } else { type_ }.to_owned());
    }
    let of = object.pointer(rolling(plural)).unwrap_or(&Value::Null);
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        // The default of BroadcastJobs: no bound.
        Value::Number(number) if number.as_i64() == Some(i64::from(i32::MAX)) => None,
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    parts.extend(
        ["podUpdatePolicy", "rollingUpdateType"]
            .iter()
            .filter_map(|field| word(&of[*field])),
    );
    for field in ["partition", "maxUnavailable", "maxSurge", "parallelism"] {
        parts.extend(word(&of[field]).map(|value| format!("{field} {value}")));
    }
    let grace = of
        .pointer("/inPlaceUpdateStrategy/gracePeriodSeconds")
        .and_then(Value::as_i64);
    parts.extend(
        grace
            .filter(|grace| *grace > 0)
            .map(|grace| format!("grace {grace}s")),
    );
    let policies = [
        ("completion", "/completionPolicy/type"),
        ("on failure", "/failurePolicy/type"),
    ];
    for (name, pointer) in policies {
        let value = of.pointer(pointer).and_then(Value::as_str);
        parts.extend(value.map(|value| format!("{name} {value}")));
    }
    let partitions = object.pointer("/spec/updateStrategy/manualUpdate/partitions");
    for (subset, partition) in partitions.and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("partition of {subset} {partition}"));
    }
    if of["paused"] == true {
        parts.push("paused".to_owned());
    }
    parts.join(", ")
}

/// The images of the template, and those of older revisions that still have pods.
fn images(world: &World) -> Vec<String> {
    let new: BTreeSet<_> = images_of_template(&world.object).into_iter().collect();
    let update = update_revision(&world.object);
    let pods = world.pods.iter().filter(|pod| is_own(world, pod));
    let hashes: BTreeSet<_> = pods.map(|pod| revision_of(world, pod)).collect();
    let old = world.revisions.iter().filter(|one| {
        is_own(world, one)
            && !same(name(one), update)
            && hashes.iter().any(|hash| same(name(one), hash))
    });
    let old: BTreeSet<_> = old
        .flat_map(images_of_revision)
        .filter(|image| !new.contains(image))
        .collect();
    if old.is_empty() {
        return new.into_iter().collect();
    }
    let new = new.into_iter().map(|image| format!("{image} (update)"));
    let old = old.into_iter().map(|image| format!("{image} (current)"));
    new.chain(old).collect()
}

/// The images of a workload's template.
pub fn images_of_template(object: &Value) -> Vec<String> {
    let templates = object["spec"]["template"]
        .as_object()
        .into_iter()
        .flat_map(|map| map.values());
    // The templates of a UnitedDeployment have templates of pods.
    let nested = templates.filter_map(|one| one.pointer("/spec/template"));
    let mut all = Vec::new();
    for one in nested
        .chain(object.pointer("/spec/template"))
        .chain(object.get("spec"))
    {
        all.extend(images_below(one));
    }
    all
}

/// The images of a ControllerRevision.
pub fn images_of_revision(revision: &Value) -> Vec<String> {
    let template = revision.pointer("/data/spec/template");
    let data = template.or_else(|| revision.pointer("/data"));
    data.map(images_below).unwrap_or_default()
}

/// The images of containers in a template of pods, or in the spec of a SidecarSet.
fn images_below(template: &Value) -> Vec<String> {
    let lists = [
        "/spec/initContainers",
        "/spec/containers",
        "/initContainers",
        "/containers",
    ];
    let containers = lists.iter().flat_map(|pointer| items(template, pointer));
    let images = containers.map(|one| text(one, "/image").to_owned());
    images.filter(|image| !image.is_empty()).collect()
}
