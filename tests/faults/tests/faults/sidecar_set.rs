//! SidecarSets: pods with injected containers get new images of them in place; pods that lack the
//! containers are replaced; and the history is kept short.

mod ending;
mod group;
mod repair;
mod revisions;
mod update;

use anyhow::Result;
use berth_e2e::objects::APP;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use self::repair::RepairRun;
use self::revisions::RevisionsRun;
use self::update::UpdateRun;
use crate::group::WorldKind;
use crate::run::{self, Attempt, Outcome};
use crate::scenario::Scenario;
use crate::sidecar_laws::EMPTY;

pub(crate) use self::ending::status;

/// How many pods may be out of service for one SidecarSet.
const MAX_UNAVAILABLE: usize = 1;
/// The value of the label [`APP`] of all pods.
const SET: &str = "web";

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sidecar {
    /// A SidecarSet gets another image, and each pod a new container in place of the old one.
    Cold,
    /// The same with two containers, one of which always works.
    Hot,
    /// Two SidecarSets get other images, and write the same pods.
    Two,
    /// The same, and the pods are a CloneSet's, which gets another image as well: three writers
    /// change the same pods.
    Rollout,
    /// As cold, and each pod waits until its node has the new image.
    Ahead,
    /// A CloneSet's pods were created without injection. Their workload replaces them.
    Repair,
    /// A ReplicaSet's pods, which are evicted.
    RepairEvicted,
    /// A SidecarSet gets one image after the other, with a short history and a pinned revision, and
    /// then its first image again.
    Revisions,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Sidecar::Cold,
    &Sidecar::Hot,
    &Sidecar::Two,
    &Sidecar::Rollout,
    &Sidecar::Repair,
    &Sidecar::RepairEvicted,
    &Sidecar::Revisions,
    &Sidecar::Ahead,
];

impl Scenario for Sidecar {
    fn name(&self) -> &'static str {
        match self {
            Sidecar::Cold => "sidecar_cold",
            Sidecar::Hot => "sidecar_hot",
            Sidecar::Two => "sidecar_two",
            Sidecar::Rollout => "sidecar_rollout",
            Sidecar::Repair => "sidecar_repair",
            Sidecar::RepairEvicted => "sidecar_repair_evicted",
            Sidecar::Revisions => "sidecar_revisions",
            Sidecar::Ahead => "sidecar_ahead",
        }
    }

    /// If pods are created meanwhile, the pod webhook is needed. In a pair only one replica serves
    /// it.
    fn worlds(&self) -> &'static [WorldKind] {
        match self {
            Sidecar::Cold | Sidecar::Hot | Sidecar::Two | Sidecar::Rollout => &WorldKind::SIMULATED,
            Sidecar::Repair | Sidecar::RepairEvicted | Sidecar::Revisions => {
                &[WorldKind::Simulated]
            }
            Sidecar::Ahead => &[WorldKind::Ahead],
        }
    }

    fn watched(&self) -> Vec<&'static str> {
        match self {
            Sidecar::Cold | Sidecar::Hot | Sidecar::Two | Sidecar::Revisions => {
                vec!["sidecarsets", "pods", "controllerrevisions"]
            }
            Sidecar::Rollout => vec!["sidecarsets", "pods", "clonesets"],
            Sidecar::Repair | Sidecar::RepairEvicted => vec!["sidecarsets", "pods"],
            Sidecar::Ahead => vec!["sidecarsets", "pods", "imagepulljobs", "nodeimages"],
        }
    }

    fn merged(&self) -> &'static [&'static str] {
        match self {
            Sidecar::Rollout | Sidecar::Repair => {
                &["sidecarsets/status", "clonesets/status", "nodeimages"]
            }
            Sidecar::Ahead => &["sidecarsets/status", "imagepulljobs/status", "nodeimages"],
            _ => &["sidecarsets/status"],
        }
    }

    /// The label about pulls ahead is written after updates that need not wait any more: a life of
    /// one write never gets to it.
    fn progresses_by_single_writes(&self) -> bool {
        *self != Sidecar::Ahead
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        match self {
            Sidecar::Cold | Sidecar::Hot | Sidecar::Two | Sidecar::Rollout | Sidecar::Ahead => {
                run::run::<UpdateRun<'_>>(*self, attempt).boxed_local()
            }
            Sidecar::Repair | Sidecar::RepairEvicted => {
                run::run::<RepairRun<'_>>(*self, attempt).boxed_local()
            }
            Sidecar::Revisions => run::run::<RevisionsRun<'_>>(*self, attempt).boxed_local(),
        }
    }
}

/// A SidecarSet of a scenario: the suffix of its name, its container, and whether that is two
/// containers in pods.
#[derive(Debug, Clone, Copy)]
struct Kept {
    suffix: &'static str,
    container: &'static str,
    is_hot: bool,
}

impl Sidecar {
    fn sets(self) -> &'static [Kept] {
        const AGENT: Kept = Kept {
            suffix: "agent",
            container: "agent",
            is_hot: false,
        };
        const HOT: Kept = Kept {
            suffix: "mesh",
            container: "mesh",
            is_hot: true,
        };
        match self {
            Sidecar::Hot => &[HOT],
            Sidecar::Two | Sidecar::Rollout => &[
                AGENT,
                Kept {
                    is_hot: false,
                    ..HOT
                },
            ],
            Sidecar::Cold
            | Sidecar::Ahead
            | Sidecar::Repair
            | Sidecar::RepairEvicted
            | Sidecar::Revisions => &[AGENT],
        }
    }

    /// How often SidecarSets write each pod's images.
    fn writes(self) -> usize {
        self.sets()
            .iter()
            .map(|set| if set.is_hot { 2 } else { 1 })
            .sum()
    }
}

impl Kept {
    /// SidecarSets have no namespace, so their names contain that of the run.
    fn name(self, namespace: &str) -> String {
        format!("{namespace}-{}", self.suffix)
    }

    fn containers(self, image: &str) -> Value {
        let mut container = json!({"name": self.container, "image": image});
        if self.is_hot {
            container["upgradeStrategy"] =
                json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
        }
        json!([container])
    }

    /// The manifest with this image, and with this in its spec.
    fn manifest(self, namespace: &str, image: &str, spec: &Value) -> Value {
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {
                "name": self.name(namespace), "annotations": {"apps.kruise.io/sidecarset-failure-policy": "Fail"},
            },
            "spec": {
                // Not by its value, because no workload must adopt the pods that are created only
                // to see whether they get containers.
                "selector": {"matchExpressions": [{"key": APP, "operator": "Exists"}]},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "containers": self.containers(image),
            },
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            set["spec"][field] = value.clone();
        }
        set
    }
}
