//! What a user does with a CloneSet while the controller dies.

use std::time::Duration;

use anyhow::Result;
use berth_api::names::annotation;
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, CONTAINER};
use berth_e2e::record::{Moment, Standing};
use serde_json::{Value, json};

use crate::case::{Case, SET};
use crate::world::{ONE, PATIENCE, TWO};

pub(crate) const REPLICAS: usize = 3;

/// A thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// A CloneSet is created.
    Create,
    /// Its image changes in place, each pod out of service for a second before.
    InPlace,
    /// The same, and the image changes back when the second pod is being updated.
    Rollback,
    /// Its image changes by new pods, with one more than wanted and never one less.
    Recreate,
    /// The same, and each pod has a claim that goes with it.
    Claims,
    /// A CloneSet is created whose containers start in order, and then their images change, in the same order.
    Ordered,
}

impl Scenario {
    pub(crate) const ALL: [Scenario; 6] = [
        Scenario::Create,
        Scenario::InPlace,
        Scenario::Rollback,
        Scenario::Recreate,
        Scenario::Claims,
        Scenario::Ordered,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario::Create => "create",
            Scenario::InPlace => "in_place",
            Scenario::Rollback => "rollback",
            Scenario::Recreate => "recreate",
            Scenario::Claims => "claims",
            Scenario::Ordered => "ordered",
        }
    }

    /// The CloneSet at first.
    pub(crate) fn clone_set(self) -> Value {
        let rolling_update = match self {
            Scenario::Create | Scenario::Ordered => {
                json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1})
            }
            Scenario::InPlace | Scenario::Rollback => json!({
                "podUpdatePolicy": "InPlaceIfPossible",
                "maxUnavailable": 1,
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": self.grace_seconds()},
            }),
            Scenario::Recreate | Scenario::Claims => {
                json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 0, "maxSurge": 1})
            }
        };
        let mut set = objects::clone_set(SET, REPLICAS, ONE, &rolling_update);
        // Probes cost up to a second for each pod, and show nothing here.
        if let Some(container) = set["spec"]["template"]["spec"]["containers"][0].as_object_mut() {
            container.remove("readinessProbe");
        }
        if self == Scenario::Claims {
            let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
            set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": spec}]);
            set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "data", "mountPath": "/data"}]);
        }
        if self == Scenario::Ordered {
            let template = &mut set["spec"]["template"];
            template["metadata"]["annotations"] =
                json!({annotation::CONTAINER_LAUNCH_PRIORITY: annotation::CONTAINER_LAUNCH_ORDERED});
            let side = json!({"name": "side", "image": ONE, "env": [{"name": "PORT", "value": "9090"}]});
            template["spec"]["containers"].as_array_mut().into_iter().for_each(|all| all.push(side.clone()));
        }
        set
    }

    /// Whether the pods are there before.
    pub(crate) fn has_pods(self) -> bool {
        !matches!(self, Scenario::Create | Scenario::Ordered)
    }

    /// Does it.
    pub(crate) async fn act(self, case: &Case<'_>) -> Result<()> {
        match self {
            Scenario::Create => case.create(&self.clone_set()).await,
            Scenario::InPlace | Scenario::Recreate | Scenario::Claims => case.set_image(TWO).await,
            Scenario::Rollback => {
                case.set_image(TWO).await?;
                let wants = |s: &&Standing<'_>| s.pod.containers.get(CONTAINER).is_some_and(|c| c.wanted == TWO);
                let second = |now: &Moment<'_>| now.pods.values().filter(wants).count() >= 2;
                case.watch.until("the second pod is updated", PATIENCE, second).await?;
                case.set_image(ONE).await
            }
            Scenario::Ordered => {
                case.create(&self.clone_set()).await?;
                let all_serve = |now: &Moment<'_>| now.available(Duration::ZERO) == REPLICAS;
                case.watch.until("all pods serve", PATIENCE, all_serve).await?;
                case.set_image(TWO).await
            }
        }
    }

    /// The image in the end.
    pub(crate) fn image(self) -> &'static str {
        match self {
            Scenario::Create | Scenario::Rollback => ONE,
            Scenario::InPlace | Scenario::Recreate | Scenario::Claims | Scenario::Ordered => TWO,
        }
    }

    /// The pods are the same ones after it.
    pub(crate) fn keeps_pods(self) -> bool {
        matches!(self, Scenario::InPlace | Scenario::Rollback)
    }

    /// How many pods it creates.
    pub(crate) fn creates(self) -> usize {
        if self.keeps_pods() { 0 } else { REPLICAS }
    }

    /// How many pods it deletes.
    pub(crate) fn deletes(self) -> usize {
        if matches!(self, Scenario::Recreate | Scenario::Claims) { REPLICAS } else { 0 }
    }

    /// How many claims it creates, and how many there are in the end.
    pub(crate) fn claims(self) -> usize {
        if self == Scenario::Claims { REPLICAS } else { 0 }
    }

    /// How many ConfigMaps it creates.
    pub(crate) fn barriers(self) -> usize {
        if self == Scenario::Ordered { REPLICAS } else { 0 }
    }

    /// How many templates the CloneSet has had.
    pub(crate) fn templates(self) -> usize {
        if self == Scenario::Create { 1 } else { 2 }
    }

    /// Whether its plans depend on nothing that goes by while nobody acts: a grace period does.
    pub(crate) fn is_explained(self) -> bool {
        matches!(self, Scenario::Create | Scenario::Recreate)
    }

    /// How many revisions it makes.
    pub(crate) fn revisions(self) -> usize {
        if self == Scenario::Ordered { 2 } else { 1 }
    }

    /// Whether a controller gets on that lives for one write only. The ConfigMap that holds containers back is never read, so
    /// its writes are repeated until that on the pod, the third, is done too.
    pub(crate) fn gets_on_by_single_writes(self) -> bool {
        self != Scenario::Ordered
    }

    /// How often an image in a pod changes, at most.
    pub(crate) fn image_changes(self) -> usize {
        match self {
            Scenario::Create | Scenario::Recreate | Scenario::Claims => 0,
            Scenario::InPlace => 1,
            Scenario::Rollback | Scenario::Ordered => 2,
        }
    }

    /// How long a pod is out of service before its image changes.
    pub(crate) fn grace_seconds(self) -> i64 {
        i64::from(self.keeps_pods())
    }

    /// Whether each run restarts as many containers as any other. A rollback spares those that it reaches in time.
    pub(crate) fn restarts_are_certain(self) -> bool {
        self != Scenario::Rollback
    }

    /// What holds at every instant.
    pub(crate) fn limits(self) -> Limits {
        let (available, active) = match self {
            Scenario::Create | Scenario::Ordered => (0, REPLICAS),
            Scenario::InPlace | Scenario::Rollback => (REPLICAS - 1, REPLICAS),
            Scenario::Recreate | Scenario::Claims => (REPLICAS, REPLICAS + 1),
        };
        Limits { available, active, ..Limits::default() }
    }
}
