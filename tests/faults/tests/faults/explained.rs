//! Checks that the plan that `kubectl berth why` prints while the controller is dead is the first
//! that the controller carries out when it lives again.
//!
//! The controller is killed before each write of a scenario in turn. The node is paused from then
//! on until the next life has carried out its plan, so that both see the same state.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_api::names::label;
use berth_cluster::Component;
use berth_cluster::programs::workspace_binary;
use berth_faults::{Entry, Fault, Side};
use http::Method;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::sleep;

use crate::run;
use crate::scenario::{Run, Scenario};
use crate::world::World;

const KUBELET: Component = Component::Kubelet(1);

/// A write, without the parts that differ from run to run.
#[derive(Debug, Clone, PartialEq)]
struct ComparedWrite {
    /// Method, resource, and the name of an existing object.
    what: String,
    labels: BTreeMap<String, Value>,
    /// Keyed by container.
    images: BTreeMap<String, Value>,
    /// Statuses by type.
    conditions: BTreeMap<String, Value>,
}

/// The object to explain, and how often.
#[derive(Clone, Copy)]
pub(crate) struct Explained {
    /// Kind and name of the object, as arguments of `explain`.
    pub(crate) object: [&'static str; 2],
    /// The minimum number of plans that write something.
    pub(crate) plans: usize,
}

/// Compares at every write of a scenario.
pub(crate) async fn compare<'a, R: Run<'a>>(
    world: &'a World,
    scenario: R::Scenario,
    explained: Explained,
) -> Result<()> {
    let (namespace, mut run) = run::begin::<R>(world, scenario).await?;
    world.controller.begin(&namespace, Fault::None);
    run.set_up().await?;

    world
        .controller
        .begin(&namespace, Fault::Each(Side::Before));
    world.controller.hold();
    let compared = compare_each(world, &run, (explained.object, &namespace)).await;
    world.controller.begin("", Fault::None);
    world.controller.release();
    let resumed = world.cluster.resume(KUBELET);
    let compared = compared.with_context(|| world.logs())?;
    resumed?;
    run.clean_up().await?;
    eprintln!(
        "{}: {compared} plans were done as they were explained",
        scenario.name()
    );
    ensure!(
        compared >= explained.plans,
        "only {compared} plans were there to compare"
    );
    Ok(())
}

/// Returns how many plans that write something were compared.
async fn compare_each<'a>(
    world: &World,
    run: &impl Run<'a>,
    object: ([&str; 2], &str),
) -> Result<usize> {
    run.act().await?;
    let mut compared = 0;
    loop {
        tokio::select! {
            dead = world.controller.dead() => dead?,
            ended = run::rest(&world.controller, || run.look()) => return ended.map(|_| compared),
        }
        world.cluster.pause(KUBELET)?;
        let told = explain(world, object).await?;
        let did = first_writes(world).await?;
        world.cluster.resume(KUBELET)?;
        let stages = stages(&told)?;
        follows(&stages, &did).with_context(|| format!("explained: {told:#}\ndone: {did:#?}"))?;
        compared += usize::from(!stages.is_empty());
    }
}

async fn explain(world: &World, ([kind, name], namespace): ([&str; 2], &str)) -> Result<Value> {
    let plugin = || workspace_binary("kubectl-berth", false);
    let plugin = tokio::task::spawn_blocking(plugin).await??;
    let mut command = Command::new(plugin);
    command.args([
        "why",
        kind,
        name,
        "--namespace",
        namespace,
        "--output",
        "json",
    ]);
    let output = command
        .env("KUBECONFIG", world.cluster.kubeconfig())
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "why failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("why prints no JSON")
}

/// Begins a life, and returns its writes until it is killed, or has nothing to do while the node is
/// paused.
async fn first_writes(world: &World) -> Result<Vec<ComparedWrite>> {
    let life = world.controller.ledger().life() + 1;
    world.controller.one_life().await;
    let quiet = async || -> Result<Vec<ComparedWrite>> {
        while world.controller.ledger().life() < life || !run::is_quiet(&world.controller) {
            sleep(Duration::from_millis(20)).await;
            world.controller.check()?;
        }
        let ledger = world.controller.ledger();
        Ok(ledger
            .entries()
            .iter()
            .filter(|entry| entry.life == life)
            .filter_map(ComparedWrite::done)
            .collect())
    };
    let did = quiet().await?;
    if !did.is_empty() {
        return Ok(did);
    }
    // A process that has just started may get no processor for a while.
    sleep(Duration::from_secs(2)).await;
    quiet().await
}

/// The stages of a plan that write something.
fn stages(plan: &Value) -> Result<Vec<Vec<ComparedWrite>>> {
    let list = |value: &Value, field: &str| {
        value[field]
            .as_array()
            .cloned()
            .with_context(|| format!("no {field}"))
    };
    let mut stages = Vec::new();
    for stage in list(plan, "stages")? {
        let mut writes = Vec::new();
        for step in list(&stage, "steps")? {
            writes.extend(
                list(&step, "actions")?
                    .iter()
                    .filter_map(ComparedWrite::planned),
            );
        }
        stages.extend((!writes.is_empty()).then_some(writes));
    }
    Ok(stages)
}

/// Checks the writes stage by stage, as far as the controller came.
fn follows(stages: &[Vec<ComparedWrite>], did: &[ComparedWrite]) -> Result<()> {
    ensure!(
        stages.is_empty() == did.is_empty(),
        "one of them has nothing to do"
    );
    let mut did = did.iter();
    for stage in stages {
        let mut open = stage.clone();
        while !open.is_empty() {
            let Some(write) = did.next() else {
                return Ok(());
            };
            let planned = open.iter().position(|planned| planned == write);
            open.swap_remove(
                planned.with_context(|| format!("this was not explained: {write:?}"))?,
            );
        }
    }
    Ok(())
}

impl ComparedWrite {
    /// A write that was carried out, except of the workload's status, which is no part of a plan.
    fn done(entry: &Entry) -> Option<ComparedWrite> {
        let ours =
            ["pods", "pods/status", "controllerrevisions"].contains(&entry.write.resource.as_str());
        let containers = entry.body["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten();
        let images = containers
            .map(|c| (text(&c["name"]), c["image"].clone()))
            .collect();
        let conditions = &entry.body["status"]["conditions"];
        ours.then(|| match entry.write.method {
            Method::POST => ComparedWrite::creation(&entry.write.resource, &entry.body),
            _ => ComparedWrite::of(
                &entry.write.to_string(),
                &entry.body["metadata"]["labels"],
                images,
                conditions,
            ),
        })
    }

    /// The write of a plan's action; `None` for an action that writes nothing.
    fn planned(action: &Value) -> Option<ComparedWrite> {
        let (kind, action) = action.as_object()?.iter().next()?;
        let (name, patch) = (text(&action["target"]["name"]), &action["patch"]);
        let simple = |what: &str| {
            ComparedWrite::of(
                &format!("{what} {name}"),
                &Value::Null,
                BTreeMap::new(),
                &Value::Null,
            )
        };
        match kind.as_str() {
            "CreatePod" => Some(ComparedWrite::creation("pods", &action["body"])),
            "CreateRevision" => Some(ComparedWrite::creation(
                "controllerrevisions",
                &action["body"],
            )),
            "DeletePod" => Some(simple("DELETE pods")),
            "DeleteRevision" => Some(simple("DELETE controllerrevisions")),
            "RenumberRevision" => Some(simple("PATCH controllerrevisions")),
            "PatchPod" => Some(ComparedWrite::of(
                &format!("PATCH pods {name}"),
                &patch["labels"],
                map(&patch["images"]),
                &Value::Null,
            )),
            "PatchPodStatus" => {
                let what = format!("PATCH pods/status {name}");
                Some(ComparedWrite::of(
                    &what,
                    &patch["labels"],
                    BTreeMap::new(),
                    &action["conditions"],
                ))
            }
            _ => None,
        }
    }

    /// Names of new pods are generated; their revision is not.
    fn creation(resource: &str, body: &Value) -> ComparedWrite {
        let mut labels = map(&body["metadata"]["labels"]);
        labels.remove(label::CLONESET_INSTANCE_ID);
        ComparedWrite {
            labels,
            ..ComparedWrite::of(
                &format!("POST {resource}"),
                &Value::Null,
                BTreeMap::new(),
                &Value::Null,
            )
        }
    }

    fn of(
        what: &str,
        labels: &Value,
        images: BTreeMap<String, Value>,
        conditions: &Value,
    ) -> ComparedWrite {
        let conditions = conditions.as_array().into_iter().flatten();
        let conditions = conditions
            .map(|c| (text(&c["type"]), c["status"].clone()))
            .collect();
        ComparedWrite {
            what: what.to_owned(),
            labels: map(labels),
            images,
            conditions,
        }
    }
}

fn map(value: &Value) -> BTreeMap<String, Value> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
