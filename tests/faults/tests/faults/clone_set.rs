//! CloneSets: the changes that users make to one.

mod budget;
mod checks;
mod ending;
mod expected;
mod run;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_api::names::lifecycle_state::NORMAL;
use berth_api::names::{annotation, label};
use berth_e2e::objects::{self, CONTAINER, kind};
use berth_e2e::record::{Moment, PodView, Standing};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use self::expected::Expected;
use self::run::CloneSetRun;
use crate::explained::{self, Explained};
use crate::group::WorldKind;
use crate::owner::{self, HOOK, READY};
use crate::run::{Attempt, Outcome};
use crate::scenario::{Comparison, Scenario};
use crate::world::{MISSING, ONE, PATIENCE, TWO, World};

/// The name of every CloneSet, so that its revisions are named alike in every run.
const SET: &str = "web";
/// Pods at first.
pub(crate) const REPLICAS: usize = 3;
/// A revision, and at least two writes for each of three pods.
const EXPLAIN: Explained = Explained {
    object: ["cloneset", SET],
    plans: 1 + 2 * REPLICAS,
};

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// A CloneSet is created.
    Create,
    /// Its image changes in place, each pod out of service for a second before.
    InPlace,
    /// The same, and the image changes back when the second pod is being updated.
    Rollback,
    /// Its image changes by new pods, with one more than wanted and never one less.
    Recreate,
    /// The same, and each pod has a claim that is deleted with it.
    Claims,
    /// A CloneSet is created whose containers start in order, and then their images change, in the
    /// same order.
    Ordered,
    /// It gets more pods.
    ScaleUp,
    /// It gets fewer.
    ScaleDown,
    /// One of its pods gets the label `specified-delete`, and is replaced.
    SpecifiedDelete,
    /// Its image changes in place, without a time out of service.
    Quick,
    /// The same, and the hook's owner lets each pod into the update and out of it.
    Hooks,
    /// Its image changes in place to one that no registry has, and then to one that exists.
    Repaired,
    /// A CloneSet is created, and the hook's owner lets its pods into service; then it gets fewer,
    /// and the owner lets them be deleted.
    Guarded,
    /// Its image changes in place in all pods but one.
    Partition,
    /// It gets one pod fewer, and the spec names the pod to delete.
    Named,
    /// Its image changes in place. maxUnavailable allows all pods at once, and a budget allows one
    /// at a time.
    Budgeted,
    /// The same while it gets one pod fewer, and one of the others is evicted.
    Drained,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Rollout::Create,
    &Rollout::InPlace,
    &Rollout::Rollback,
    &Rollout::Recreate,
    &Rollout::Claims,
    &Rollout::Ordered,
    &Rollout::ScaleUp,
    &Rollout::ScaleDown,
    &Rollout::SpecifiedDelete,
    &Rollout::Quick,
    &Rollout::Hooks,
    &Rollout::Repaired,
    &Rollout::Guarded,
    &Rollout::Partition,
    &Rollout::Named,
    &Rollout::Budgeted,
    &Rollout::Drained,
];

impl Scenario for Rollout {
    fn name(&self) -> &'static str {
        match self {
            Rollout::Create => "create",
            Rollout::InPlace => "in_place",
            Rollout::Rollback => "rollback",
            Rollout::Recreate => "recreate",
            Rollout::Claims => "claims",
            Rollout::Ordered => "ordered",
            Rollout::ScaleUp => "scale_up",
            Rollout::ScaleDown => "scale_down",
            Rollout::SpecifiedDelete => "specified_delete",
            Rollout::Quick => "quick",
            Rollout::Hooks => "hooks",
            Rollout::Repaired => "repaired",
            Rollout::Guarded => "guarded",
            Rollout::Partition => "partition",
            Rollout::Named => "named",
            Rollout::Budgeted => "budgeted",
            Rollout::Drained => "drained",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        match self {
            Rollout::Create
            | Rollout::InPlace
            | Rollout::Rollback
            | Rollout::Recreate
            | Rollout::Claims => &WorldKind::ALL,
            // Only real containers start in order.
            Rollout::Ordered => &[WorldKind::Real],
            // In a pair only one replica serves the webhook, and an eviction needs it.
            Rollout::Drained => &[WorldKind::Simulated],
            _ => &WorldKind::SIMULATED,
        }
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["pods", "clonesets"];
        watched.extend((self.expected().revisions > 0).then_some("controllerrevisions"));
        watched.extend((self.expected().image_changes > 1).then_some("nodeimages"));
        watched.extend((*self == Rollout::Claims).then_some("persistentvolumeclaims"));
        watched.extend(self.spared().map(|_| "podunavailablebudgets"));
        watched
    }

    /// One patch of a NodeImage may inspect two pods, and one patch of a budget's status may
    /// reserve for two.
    fn merged(&self) -> &'static [&'static str] {
        &[
            "clonesets/status",
            "nodeimages",
            "podunavailablebudgets/status",
        ]
    }

    /// The ConfigMap that holds containers back is never read, so its writes are repeated until the
    /// pod's write, the third, is done too.
    fn progresses_by_single_writes(&self) -> bool {
        *self != Rollout::Ordered
    }

    /// The scenarios whose plans depend on nothing that changes while no writer acts; a grace
    /// period does. For a CloneSet that was created, its next update is explained.
    fn explained(&self) -> Option<Comparison> {
        match self {
            Rollout::Create => Some(|world| compare(world, Rollout::Quick)),
            Rollout::Recreate => Some(|world| compare(world, Rollout::Recreate)),
            _ => None,
        }
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        crate::run::run::<CloneSetRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Rollout {
    /// The CloneSet at first.
    pub(crate) fn clone_set(self) -> Value {
        let rolling_update = match self {
            Rollout::InPlace | Rollout::Rollback => json!({
                "podUpdatePolicy": "InPlaceIfPossible",
                "maxUnavailable": 1,
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": self.grace_seconds()},
            }),
            Rollout::Recreate | Rollout::Claims => {
                json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 0, "maxSurge": 1})
            }
            _ => {
                let kept = self.expected().kept;
                let most = if self.spared().is_some() { REPLICAS } else { 1 };
                json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": most, "partition": kept})
            }
        };
        let mut set = objects::clone_set(SET, REPLICAS, ONE, &rolling_update);
        // Probes cost up to a second for each pod, and show nothing here.
        if let Some(container) = set["spec"]["template"]["spec"]["containers"][0].as_object_mut() {
            container.remove("readinessProbe");
        }
        let template = &mut set["spec"]["template"];
        match self {
            Rollout::Claims => {
                template["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "data", "mountPath": "/data"}]);
                let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
                set["spec"]["volumeClaimTemplates"] =
                    json!([{"metadata": {"name": "data"}, "spec": spec}]);
            }
            Rollout::Ordered => {
                template["metadata"]["annotations"] = json!({annotation::CONTAINER_LAUNCH_PRIORITY: annotation::CONTAINER_LAUNCH_ORDERED});
                let side = json!({"name": "side", "image": ONE, "env": [{"name": "PORT", "value": "9090"}]});
                template["spec"]["containers"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|all| all.push(side.clone()));
            }
            Rollout::Hooks => {
                template["metadata"]["labels"][HOOK] = json!("true");
                set["spec"]["lifecycle"] =
                    json!({"inPlaceUpdate": {"labelsHandler": {HOOK: "true"}}});
            }
            Rollout::Guarded => {
                template["metadata"]["labels"][HOOK] = json!("true");
                set["spec"]["lifecycle"] = json!({
                    "preNormal": {"labelsHandler": {READY: "true"}},
                    "preDelete": {"labelsHandler": {HOOK: "true"}},
                });
            }
            _ => {}
        }
        set
    }

    /// Whether the pods exist before.
    pub(crate) fn has_pods(self) -> bool {
        !matches!(self, Rollout::Create | Rollout::Ordered | Rollout::Guarded)
    }

    /// The number of pods before.
    pub(crate) fn pods_before(self) -> usize {
        if self.has_pods() { REPLICAS } else { 0 }
    }

    /// The number of pods that a budget keeps available, if there is one.
    pub(crate) fn spared(self) -> Option<usize> {
        matches!(self, Rollout::Budgeted | Rollout::Drained).then(|| self.expected().available)
    }

    /// Carries out the action.
    pub(crate) async fn act(self, run: &CloneSetRun<'_>) -> Result<()> {
        match self {
            Rollout::Create => run.create(&self.clone_set()).await,
            Rollout::InPlace
            | Rollout::Quick
            | Rollout::Partition
            | Rollout::Recreate
            | Rollout::Claims
            | Rollout::Budgeted => run.set_image(TWO).await,
            Rollout::Rollback => {
                run.set_image(TWO).await?;
                run.watch
                    .until("the second pod is updated", PATIENCE, wanting(TWO, 2))
                    .await?;
                run.set_image(ONE).await
            }
            Rollout::Ordered => {
                run.create(&self.clone_set()).await?;
                let all_serve = |now: &Moment<'_>| now.available(Duration::ZERO) == REPLICAS;
                run.watch
                    .until("all pods serve", PATIENCE, all_serve)
                    .await?;
                run.set_image(TWO).await
            }
            Rollout::ScaleUp | Rollout::ScaleDown => {
                run.patch_set(&json!({"spec": {"replicas": self.expected().replicas}}))
                    .await
            }
            Rollout::SpecifiedDelete => {
                let pods = run.pods().await?;
                let told = self.told_to_go(&pods).context("no pods")?;
                let patch = json!({"metadata": {"labels": {label::SPECIFIED_DELETE: "true"}}});
                objects::patch(&run.world.client, &run.namespace, kind::POD, told, &patch)
                    .await
                    .map(|_| ())
            }
            Rollout::Named => {
                let pods = run.pods().await?;
                let told = self.told_to_go(&pods).context("no pods")?;
                let replicas = self.expected().replicas;
                run.patch_set(&json!({"spec": {"replicas": replicas, "scaleStrategy": {"podsToDelete": [told]}}})).await
            }
            Rollout::Drained => {
                let replicas = self.expected().replicas;
                let mut spec = run.template(TWO);
                spec["replicas"] = replicas.into();
                run.patch_set(&json!({"spec": spec})).await?;
                let one_is_gone = |now: &Moment<'_>| now.active() == replicas;
                run.watch
                    .until("there is one pod fewer", PATIENCE, one_is_gone)
                    .await?;
                run.evict_one().await
            }
            Rollout::Guarded => {
                run.create(&self.clone_set()).await?;
                owner::let_in(&run.world.client, &run.namespace, REPLICAS).await?;
                let is_in = |s: &&Standing<'_>| {
                    s.pod.serves() && s.pod.label(label::LIFECYCLE_STATE) == NORMAL
                };
                let all_are_in =
                    |now: &Moment<'_>| now.pods.values().filter(is_in).count() == REPLICAS;
                run.watch
                    .until("all pods are in service", PATIENCE, all_are_in)
                    .await?;
                let Expected {
                    replicas, deletes, ..
                } = self.expected();
                run.patch_set(&json!({"spec": {"replicas": replicas}}))
                    .await?;
                owner::let_go(&run.world.client, &run.namespace, deletes).await
            }
            Rollout::Hooks => {
                run.set_image(TWO).await?;
                owner::let_all_through(&run.world.client, &run.namespace, REPLICAS).await
            }
            Rollout::Repaired => {
                run.set_image(MISSING).await?;
                run.watch
                    .until("the first pod is updated", PATIENCE, wanting(MISSING, 1))
                    .await?;
                run.set_image(TWO).await
            }
        }
    }

    /// The pod, of these, that a user names for deletion. In this scenario only the name selects
    /// it: without it, another pod would be deleted.
    pub(crate) fn told_to_go(self, pods: &BTreeMap<String, PodView>) -> Option<&str> {
        match self {
            Rollout::SpecifiedDelete => pods.keys().next().map(String::as_str),
            Rollout::Named => pods.keys().next_back().map(String::as_str),
            _ => None,
        }
    }

    /// Whether the pods are the same after it.
    pub(crate) fn keeps_pods(self) -> bool {
        let Expected {
            creates, deletes, ..
        } = self.expected();
        creates + deletes == 0
    }

    /// How long a pod is out of service before its image changes.
    pub(crate) fn grace_seconds(self) -> i64 {
        i64::from(matches!(self, Rollout::InPlace | Rollout::Rollback))
    }

    /// Whether each run restarts equally many containers. A new image spares the containers that
    /// did not restart yet.
    pub(crate) fn restarts_are_certain(self) -> bool {
        !matches!(self, Rollout::Rollback | Rollout::Repaired)
    }
}

/// Compares `explain` with the controller's writes in this scenario.
fn compare(world: &World, rollout: Rollout) -> LocalBoxFuture<'_, Result<()>> {
    explained::compare::<CloneSetRun<'_>>(world, rollout, EXPLAIN).boxed_local()
}

/// At least this many pods want this image.
fn wanting(image: &'static str, pods: usize) -> impl Fn(&Moment<'_>) -> bool {
    let wants = move |s: &&Standing<'_>| {
        s.pod
            .containers
            .get(CONTAINER)
            .is_some_and(|c| c.wanted == image)
    };
    move |now| now.pods.values().filter(wants).count() >= pods
}
