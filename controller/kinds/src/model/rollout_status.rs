//! `kubectl berth rollout status` beside the small world. It reads the object after each write to
//! it, and reads pods again as long as they do not agree with its status.

use std::sync::Arc;

use berth_api::names::annotation::RESTARTED_AT;
use berth_api::names::label::SPECIFIED_DELETE;
use berth_cli::commands::rollout::at_partition;
use berth_cli::commands::rollout::kind::RolloutKind;
use berth_cli::commands::rollout::progress::{Progress, blocked, progress};
use berth_cli::commands::rollout::target::is_paused;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::{Outcome, Plan};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::world::{Simulated, World};

/// A history, with what the command says about it.
pub(crate) struct Follower<K: Simulated> {
    kind: RolloutKind,
    /// What the pods lack to the end of the rollout, read from the world alone.
    missing: fn(&World<K>) -> Option<String>,
    /// The object after its last write.
    object: Value,
    /// What the command waits for.
    waits: Option<String>,
    /// Whether the last status is older than a change of pods that no rollout makes.
    is_stale: bool,
    /// Each change and each write, the command's answer, and the status then.
    story: Vec<(String, Progress, Value)>,
}

impl<K: Simulated> Follower<K>
where
    K::Object: Serialize,
{
    /// Follows the rollouts of a world's object.
    pub(crate) fn new(
        world: &World<K>,
        kind: RolloutKind,
        missing: fn(&World<K>) -> Option<String>,
    ) -> Self {
        Self {
            kind,
            missing,
            object: json!(*world.set),
            waits: None,
            is_stale: true,
            story: Vec::new(),
        }
    }

    /// Changes the world. `is_outside` says that the change removes or breaks pods, or changes what
    /// no generation counts.
    pub(crate) fn change(
        &mut self,
        world: &mut World<K>,
        line: String,
        is_outside: bool,
        change: impl FnOnce(&mut World<K>),
    ) -> Result<(), TestCaseError> {
        let before = json!(*world.set);
        change(world);
        let mut after = json!(*world.set);
        if after["spec"] != before["spec"] {
            let generation = before["metadata"]["generation"].as_i64().unwrap();
            after["metadata"]["generation"] = json!(generation + 1);
            world.set = Arc::new(serde_json::from_value(after).unwrap());
        }
        self.is_stale |= is_outside;
        self.check(world, line)
    }

    /// Decides, writes, and updates the status, as the controller does.
    pub(crate) fn step(&mut self, world: &mut World<K>) -> Result<Plan, TestCaseError> {
        let plan = world.begin();
        // A pod that a user asks to go may go after the end of a rollout.
        let asked = |pod: &Value| pod["metadata"]["labels"][SPECIFIED_DELETE].is_string();
        self.is_stale |= world.pods.values().any(asked);
        for action in plan.actions() {
            K::write(world, action);
            self.check(world, action.write().to_string())?;
        }
        world.claims.collect_garbage(&world.pods);
        world.outcome = Outcome::default();
        let plan = world.report(plan);
        self.is_stale = false;
        self.check(world, "status".to_owned())?;
        Ok(plan)
    }

    /// Runs the controller and the nodes until nothing changes. Then the command must be done,
    /// unless a pod is broken, or something blocks or pauses the rollout. Returns whether it is.
    pub(crate) fn settle(&mut self, world: &mut World<K>) -> Result<bool, TestCaseError> {
        for _ in 0..400 {
            let plan = self.step(world)?;
            let before = world.pods.clone();
            K::run_nodes(world);
            let nodes_rest = world.pods == before;
            self.check(world, "nodes".to_owned())?;
            world.pass(
                plan.look_again
                    .map_or(1, |wait| wait.as_secs().clamp(1, 3600)),
            );
            if nodes_rest && plan.is_idle() && plan.look_again.is_none() && world.plan().is_idle() {
                return self.end(world);
            }
        }
        Err(self.fault(world, "it does not come to rest"))
    }

    fn end(&self, world: &World<K>) -> Result<bool, TestCaseError> {
        let is_blocked = blocked(&self.object).is_some();
        let is_broken = world
            .all_pods()
            .iter()
            .any(|pod| !is_available(pod, 0, world));
        let is_paused = is_paused(self.kind, &self.object) && (self.missing)(world).is_some();
        match &self.waits {
            Some(waits) if !is_blocked && !is_broken && !is_paused => {
                Err(self.fault(world, &format!("it waits for ever: {waits}")))
            }
            waits => Ok(waits.is_none()),
        }
    }

    fn check(&mut self, world: &World<K>, line: String) -> Result<(), TestCaseError> {
        let object = json!(*world.set);
        let said = says(self.kind, &object, world);
        self.story
            .push((line, said.clone(), object["status"].clone()));
        self.object = object;
        self.waits = None;
        match said {
            Progress::Done(_) if self.is_stale => {}
            Progress::Done(_) => {
                if let Some(missing) = (self.missing)(world) {
                    return Err(self.fault(world, &format!("done too early: {missing}")));
                }
            }
            Progress::Waiting(line) => self.waits = Some(line),
            // The status does not count the nodes of a selector.
            Progress::Failed(_) if self.has_selector() => {}
            Progress::Failed(line) => return Err(self.fault(world, &format!("failed: {line}"))),
        }
        Ok(())
    }

    fn has_selector(&self) -> bool {
        let rolling = &self.object["spec"]["updateStrategy"]["rollingUpdate"];
        rolling["selector"].is_object()
    }

    fn fault(&self, world: &World<K>, what: &str) -> TestCaseError {
        let skipped = self.story.len().saturating_sub(24);
        let lines = self.story[skipped..].iter();
        let lines = lines.map(|(line, said, status)| format!("{line}: {said:?} {status}"));
        let story = lines.collect::<Vec<_>>().join("\n    ");
        let of = |(name, pod): (&String, &Value)| {
            format!(
                "{name} {} {} {}",
                pod["metadata"]["labels"],
                pod["created"]["main"],
                pod["metadata"]["deletionTimestamp"]
            )
        };
        let pods: Vec<_> = world.pods.iter().map(of).collect();
        TestCaseError::fail(format!(
            "{what}\n    {story}\n  {}\n  {}",
            self.object["spec"],
            pods.join("\n  ")
        ))
    }
}

fn says<K: Simulated>(kind: RolloutKind, object: &Value, world: &World<K>) -> Progress {
    let by_status = progress(kind, object);
    if !matches!(by_status, Progress::Done(_)) || !at_partition::needs_pods(kind, object) {
        return by_status;
    }
    let pods: Vec<_> = world.pods.values().cloned().collect();
    at_partition::unfinished_by_pods(kind, object, &pods).unwrap_or(by_status)
}

/// The pods that the object controls.
pub(crate) fn own_pods<K: Simulated>(world: &World<K>) -> Vec<Arc<Pod>> {
    let mut pods = world.all_pods();
    let is_own = |pod: &Arc<Pod>| {
        pod.metadata
            .controller()
            .is_some_and(|owner| &*owner.uid == "set")
    };
    pods.retain(|pod| is_own(pod));
    pods
}

/// Whether the pod has served for so many seconds.
pub(crate) fn is_available<K: Simulated>(pod: &Pod, seconds: i32, world: &World<K>) -> bool {
    availability(pod, seconds, world.now).is_available()
}

/// Whether the pod's container was created from the template, and serves.
pub(crate) fn is_new<K: Simulated>(
    pod: &Pod,
    template: &Value,
    seconds: i32,
    world: &World<K>,
) -> bool {
    let stored = &world.pods[&*pod.metadata.name];
    let wanted = &template["spec"]["containers"][0];
    let created = &stored["created"]["main"];
    created["image"] == wanted["image"]
        && created[RESTARTED_AT] == template["metadata"]["annotations"][RESTARTED_AT]
        && stored["spec"]["containers"][0]["env"] == wanted["env"]
        && is_available(pod, seconds, world)
}
