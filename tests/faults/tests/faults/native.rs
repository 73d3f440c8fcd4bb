//! Kubernetes' own StatefulSets: their pods return to the nodes in their records by the pod
//! webhook, which is called only for the workloads that its configuration names.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_api::names::annotation::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, INJECTED_PERSISTENT_POD_STATE, REQUIRED_PERSISTENT_TOPOLOGY,
};
use berth_e2e::objects::{self, APP, kind};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::group::WorldKind;
use crate::laws;
use crate::run::{self, Attempt, Outcome};
use crate::scenario::{Run, Scenario};
use crate::stateful_set::pod_template;
use crate::world::{MUTATING, PATIENCE, World};

const SET: &str = "db";
const REPLICAS: usize = 2;
const CONFIGURATION: &str = "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration";

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// A set requests records of its pods' places, and then a pod is deleted.
    Pinned,
    /// The set stops requesting them.
    LetGo,
    /// Another writer empties the configuration, twice.
    Wiped,
    /// The StatefulSet stops to request records, and when all are gone, requests them again.
    RequestedAgain,
}

/// The result of a scenario, for any injected fault.
struct Expected {
    /// There are records, and an entry for the set.
    is_recorded: bool,
    /// The pods that were created after that.
    pinned: &'static [&'static str],
    /// PersistentPodStates that the controller makes and deletes.
    makes: usize,
    deletes: usize,
    /// How often it writes the configuration.
    writes: usize,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Native::Pinned,
    &Native::LetGo,
    &Native::Wiped,
    &Native::RequestedAgain,
];

impl Scenario for Native {
    fn name(&self) -> &'static str {
        match self {
            Native::Pinned => "native_stateful_pinned",
            Native::LetGo => "native_stateful_let_go",
            Native::Wiped => "native_stateful_wiped",
            Native::RequestedAgain => "native_stateful_requested_again",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    fn watched(&self) -> Vec<&'static str> {
        match self {
            Native::Pinned => vec!["statefulsets", "pods", "persistentpodstates"],
            Native::LetGo | Native::RequestedAgain => vec!["statefulsets", "persistentpodstates"],
            Native::Wiped => vec!["mutatingwebhookconfigurations"],
        }
    }

    fn merged(&self) -> &'static [&'static str] {
        &["persistentpodstates/status"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        run::run::<NativeRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Native {
    fn expected(self) -> Expected {
        let recorded = Expected {
            is_recorded: true,
            pinned: &[],
            makes: 0,
            deletes: 0,
            writes: 1,
        };
        match self {
            Native::Pinned => Expected {
                pinned: &["db-1"],
                makes: 1,
                ..recorded
            },
            Native::LetGo => Expected {
                is_recorded: false,
                deletes: 1,
                ..recorded
            },
            Native::Wiped => Expected {
                writes: 2,
                ..recorded
            },
            Native::RequestedAgain => Expected {
                makes: 1,
                deletes: 1,
                writes: 2,
                ..recorded
            },
        }
    }

    fn before(self) -> Expected {
        let is_recorded = self != Native::Pinned;
        Expected {
            is_recorded,
            pinned: &[],
            ..self.expected()
        }
    }
}

/// A set in a namespace of its own.
pub(crate) struct NativeRun<'a> {
    world: &'a World,
    what: Native,
    namespace: String,
}

impl<'a> Run<'a> for NativeRun<'a> {
    type Scenario = Native;

    async fn begin(world: &'a World, namespace: &str, what: Native) -> Result<Self> {
        Ok(NativeRun {
            world,
            what,
            namespace: namespace.to_owned(),
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        let annotations = json!({
            AUTO_GENERATE_PERSISTENT_POD_STATE: if self.what.before().is_recorded { "true" } else { "false" },
            REQUIRED_PERSISTENT_TOPOLOGY: "kubernetes.io/hostname",
        });
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": SET, "annotations": annotations},
            "spec": {
                "replicas": REPLICAS, "serviceName": SET, "selector": {"matchLabels": {APP: SET}},
                "template": pod_template(), "podManagementPolicy": "Parallel",
            },
        });
        objects::create(&self.world.client, &self.namespace, &set).await?;
        self.rest(self.what.before()).await
    }

    async fn act(&self) -> Result<()> {
        match self.what {
            Native::Pinned => {
                self.ask("true").await?;
                // The webhook knows the records by a watch. A pod that is deleted before the watch
                // has shown them comes back unpinned.
                self.rest(Expected {
                    pinned: &[],
                    ..self.what.expected()
                })
                .await?;
                self.delete(kind::POD, "db-1").await
            }
            Native::LetGo => self.ask("false").await,
            Native::Wiped => {
                self.wipe().await?;
                self.until(&self.what.before()).await?;
                self.wipe().await
            }
            Native::RequestedAgain => {
                self.ask("false").await?;
                self.until(&Native::LetGo.expected()).await?;
                self.ask("true").await
            }
        }
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(&self.what.expected()).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        let counts = [
            (Method::POST, "persistentpodstates", wanted.makes),
            (Method::DELETE, "persistentpodstates", wanted.deletes),
            (
                Method::PATCH,
                "mutatingwebhookconfigurations",
                wanted.writes,
            ),
            (Method::POST, "pods", 0),
            (Method::DELETE, "pods", 0),
        ];
        let ledger = self.world.controller.ledger();
        laws::writes_are(&ledger, counts)?;
        // An entry that another writer removes is missing for a while.
        if self.what == Native::Wiped {
            return Ok(());
        }
        laws::entries_outlast_records(&ledger, &self.word(), self.what.before().is_recorded)
    }

    /// Waits until the objects that all runs share have nothing left of this run.
    async fn clean_up(&self) -> Result<()> {
        self.ask("false").await?;
        self.rest(Expected {
            pinned: self.what.expected().pinned,
            ..Native::LetGo.expected()
        })
        .await?;
        self.delete(kind::NATIVE_STATEFUL_SET, SET).await
    }
}

impl NativeRun<'_> {
    async fn rest(&self, wanted: Expected) -> Result<()> {
        let wanted = &wanted;
        run::rest(&self.world.controller, || self.look_for(wanted))
            .await
            .map(drop)
    }

    /// Waits until the state is as wanted; the controller may have more to do then.
    async fn until(&self, wanted: &Expected) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(flaw) = self.look_for(wanted).await?.1 {
            ensure!(
                Instant::now() < deadline,
                "it does not become so in {PATIENCE:?}: {flaw}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Removes all entries from the configuration.
    async fn wipe(&self) -> Result<()> {
        let empty = json!({"webhooks": []});
        objects::patch(&self.world.client, "", CONFIGURATION, MUTATING, &empty)
            .await
            .map(drop)
    }

    /// The word for the set in an entry.
    fn word(&self) -> String {
        format!("'{}/apps/StatefulSet/{SET}'", self.namespace)
    }

    async fn ask(&self, answer: &str) -> Result<()> {
        let patch =
            json!({"metadata": {"annotations": {AUTO_GENERATE_PERSISTENT_POD_STATE: answer}}});
        objects::patch(
            &self.world.client,
            &self.namespace,
            kind::NATIVE_STATEFUL_SET,
            SET,
            &patch,
        )
        .await
        .map(drop)
    }

    async fn delete(&self, of_kind: &str, name: &str) -> Result<()> {
        objects::delete(
            &self.world.client,
            &self.namespace,
            of_kind,
            name,
            &DeleteParams::background(),
        )
        .await
    }

    /// The state, and the reason why it is not the wanted one, if it is not.
    async fn look_for(&self, wanted: &Expected) -> Result<(Value, Option<String>)> {
        let list =
            async |kind: &str| objects::list(&self.world.client, &self.namespace, kind, "").await;
        let pods: BTreeMap<_, _> = list(kind::POD)
            .await?
            .iter()
            .map(|it| (name(it), pod(it)))
            .collect();
        let records: BTreeMap<_, _> = list(kind::PERSISTENT_POD_STATE)
            .await?
            .iter()
            .map(|it| (name(it), json!([it["spec"], it["status"]["podStates"]])))
            .collect();
        let configuration = objects::get(&self.world.client, "", CONFIGURATION, MUTATING).await?;
        let entries = configuration["webhooks"].as_array().into_iter().flatten();
        let own = entries.filter(|entry| laws::names(entry, &self.word()));
        let own: Vec<_> = own
            .map(|entry| json!([entry["name"], entry["failurePolicy"]]))
            .collect();
        let is_recorded = own == [json!(["pin-required-0.pods.kruise.io", "Fail"])]
            && records.get(SET).is_some_and(|state| {
                state[1]
                    .as_object()
                    .is_some_and(|all| all.len() == REPLICAS)
            });
        let is_free = own.is_empty() && records.is_empty();
        let is_pinned = |(name, pod): (&String, &Value)| {
            let is_pinned = pod["selector"]["kubernetes.io/hostname"] == self.world.node
                && pod["injected"] == SET;
            pod["ready"] == true && is_pinned == wanted.pinned.contains(&name.as_str())
        };
        let is_done = pods.len() == REPLICAS
            && pods.iter().all(is_pinned)
            && if wanted.is_recorded {
                is_recorded
            } else {
                is_free
            };
        let now = json!({"pods": pods, "records": records, "entries": own});
        let flaw = (!is_done).then(|| now.to_string());
        Ok((now, flaw))
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn pod(pod: &Value) -> Value {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.any(|c| c["type"] == "Ready" && c["status"] == "True");
    let injected = &pod["metadata"]["annotations"][INJECTED_PERSISTENT_POD_STATE];
    json!({"ready": is_ready, "selector": pod["spec"]["nodeSelector"], "injected": injected})
}
