//! StatefulSets: pods that come, change and go, in order or all at once, with their claims and the records of where they were.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::watch::PodWatch;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use http::Method;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Map, Value, json};

use crate::group::WorldKind;
use crate::laws;
use crate::run::{self, Attempt, Outcome};
use crate::scenario::{Run, Scenario};
use crate::world::{ONE, PATIENCE, TWO, World};

const SET: &str = "db";
const REPLICAS: usize = 3;

/// A thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stateful {
    /// A set is created, and makes its pods one after the other.
    Created,
    /// A set is created, and makes its pods at once.
    CreatedAtOnce,
    /// It gets fewer pods, one after the other, and their claims go with them.
    Smaller,
    /// The same, all at once, and their claims stay.
    SmallerAtOnce,
    /// It gets another image, by new pods, one after the other.
    Replaced,
    /// It gets another image in place, after a grace period.
    InPlace,
    /// An ordinal is reserved, and another pod made for it first.
    Reserved,
    /// It asks for records of where its pods are, and a pod is deleted.
    Recorded,
    /// It gets more pods.
    Bigger,
    /// One of its pods is asked to go, by label.
    AskedToGo,
    /// It gets one more claim template, so its pods are replaced.
    ClaimTemplateAdded,
    /// It is deleted without its pods, and made again.
    Adopted,
}

/// What it comes to, whatever fault is injected.
struct Expected {
    /// Ordinals of the pods.
    pods: &'static [usize],
    /// Ordinals of the claims.
    claims: &'static [usize],
    /// Claims of each of them.
    templates: usize,
    image: &'static str,
    /// Pods that the controller makes and deletes, the set-up included.
    makes: usize,
    deletes: usize,
}

/// All, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Stateful::Created,
    &Stateful::CreatedAtOnce,
    &Stateful::Smaller,
    &Stateful::SmallerAtOnce,
    &Stateful::Replaced,
    &Stateful::InPlace,
    &Stateful::Reserved,
    &Stateful::Recorded,
    &Stateful::Bigger,
    &Stateful::AskedToGo,
    &Stateful::ClaimTemplateAdded,
    &Stateful::Adopted,
];

impl Scenario for Stateful {
    fn name(&self) -> &'static str {
        match self {
            Stateful::Created => "stateful_created",
            Stateful::CreatedAtOnce => "stateful_created_at_once",
            Stateful::Smaller => "stateful_smaller",
            Stateful::SmallerAtOnce => "stateful_smaller_at_once",
            Stateful::Replaced => "stateful_replaced",
            Stateful::InPlace => "stateful_in_place",
            Stateful::Reserved => "stateful_reserved",
            Stateful::Recorded => "stateful_recorded",
            Stateful::Bigger => "stateful_bigger",
            Stateful::AskedToGo => "stateful_asked_to_go",
            Stateful::ClaimTemplateAdded => "stateful_claim_template_added",
            Stateful::Adopted => "stateful_adopted",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["statefulsets", "pods", "persistentvolumeclaims"];
        watched.extend((*self == Stateful::Recorded).then_some("persistentpodstates"));
        watched
    }

    fn merged(&self) -> &'static [&'static str] {
        &["statefulsets/status", "persistentpodstates/status"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        run::run::<StatefulRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Stateful {
    fn expected(self) -> Expected {
        let (pods, claims) = (&[0, 1, 2], &[0, 1, 2]);
        let created = Expected { pods, claims, templates: 1, image: ONE, makes: REPLICAS, deletes: 0 };
        match self {
            Stateful::Created | Stateful::CreatedAtOnce | Stateful::Adopted => created,
            Stateful::Bigger => Expected { pods: &[0, 1, 2, 3], claims: &[0, 1, 2, 3], makes: REPLICAS + 1, ..created },
            Stateful::AskedToGo => Expected { makes: REPLICAS + 1, deletes: 1, ..created },
            Stateful::ClaimTemplateAdded => {
                Expected { templates: 2, makes: 2 * REPLICAS, deletes: REPLICAS, ..created }
            }
            Stateful::Smaller => Expected { pods: &[0], claims: &[0], deletes: 2, ..created },
            Stateful::SmallerAtOnce => Expected { pods: &[0], deletes: 2, ..created },
            Stateful::Replaced => Expected { image: TWO, makes: 2 * REPLICAS, deletes: REPLICAS, ..created },
            Stateful::InPlace => Expected { image: TWO, ..created },
            Stateful::Reserved => {
                Expected { pods: &[0, 2, 3], claims: &[0, 1, 2, 3], makes: REPLICAS + 1, deletes: 1, ..created }
            }
            Stateful::Recorded => Expected { makes: REPLICAS + 1, ..created },
        }
    }

    /// The set is there before.
    fn has_set(self) -> bool {
        !matches!(self, Stateful::Created | Stateful::CreatedAtOnce)
    }

    fn is_in_order(self) -> bool {
        !matches!(self, Stateful::CreatedAtOnce | Stateful::SmallerAtOnce)
    }

    fn set(self) -> Value {
        let policy = if self == Stateful::InPlace { "InPlaceIfPossible" } else { "ReCreate" };
        let rolling = json!({"podUpdatePolicy": policy, "inPlaceUpdateStrategy": {"gracePeriodSeconds": 1}});
        let retention = if self == Stateful::Smaller { "Delete" } else { "Retain" };
        let mut template = objects::clone_set(SET, REPLICAS, ONE, &json!({}))["spec"]["template"].take();
        template["spec"]["containers"][0]
            .as_object_mut()
            .into_iter()
            .for_each(|main| drop(main.remove("readinessProbe")));
        let claim = claim_template("data");
        let annotations = json!({
            "kruise.io/auto-generate-persistent-pod-state": if self == Stateful::Recorded { "true" } else { "false" },
            "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
        });
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
            "metadata": {"name": SET, "annotations": annotations},
            "spec": {
                "replicas": REPLICAS, "serviceName": SET, "selector": {"matchLabels": {APP: SET}}, "template": template,
                "podManagementPolicy": if self.is_in_order() { "OrderedReady" } else { "Parallel" },
                "updateStrategy": {"rollingUpdate": rolling}, "volumeClaimTemplates": [claim],
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": retention},
            },
        })
    }
}

fn claim_template(name: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A StatefulSet in a namespace of its own.
pub(crate) struct StatefulRun<'a> {
    world: &'a World,
    what: Stateful,
    namespace: String,
    watch: PodWatch,
}

impl<'a> Run<'a> for StatefulRun<'a> {
    type Scenario = Stateful;

    async fn begin(world: &'a World, namespace: &str, what: Stateful) -> Result<Self> {
        let watch = PodWatch::start(&world.client, namespace, &format!("{APP}={SET}"), Instant::now()).await?;
        Ok(StatefulRun { world, what, namespace: namespace.to_owned(), watch })
    }

    async fn set_up(&mut self) -> Result<()> {
        if !self.what.has_set() {
            return Ok(());
        }
        objects::create(&self.world.client, &self.namespace, &self.what.set()).await?;
        run::rest(&self.world.controller, || self.look_for(Stateful::Created.expected())).await.map(drop)
    }

    async fn act(&self) -> Result<()> {
        match self.what {
            Stateful::Created | Stateful::CreatedAtOnce => {
                objects::create(&self.world.client, &self.namespace, &self.what.set()).await.map(|_| ())
            }
            Stateful::Smaller | Stateful::SmallerAtOnce => self.patch(json!({"replicas": 1})).await,
            Stateful::Replaced | Stateful::InPlace => {
                let mut containers = self.what.set()["spec"]["template"]["spec"]["containers"].take();
                containers[0]["image"] = TWO.into();
                self.patch(json!({"template": {"spec": {"containers": containers}}})).await
            }
            Stateful::Reserved => self.patch(json!({"reserveOrdinals": [1]})).await,
            Stateful::Recorded => self.delete(kind::POD, "db-1", PropagationPolicy::Background).await,
            Stateful::Bigger => self.patch(json!({"replicas": REPLICAS + 1})).await,
            Stateful::AskedToGo => {
                let asks = json!({"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}});
                objects::patch(&self.world.client, &self.namespace, kind::POD, "db-1", &asks).await.map(|_| ())
            }
            Stateful::ClaimTemplateAdded => {
                self.patch(json!({"volumeClaimTemplates": [claim_template("data"), claim_template("logs")]})).await
            }
            Stateful::Adopted => {
                self.delete(kind::STATEFUL_SET, SET, PropagationPolicy::Orphan).await?;
                let deadline = Instant::now() + PATIENCE;
                while objects::get(&self.world.client, &self.namespace, kind::STATEFUL_SET, SET).await.is_ok() {
                    ensure!(Instant::now() < deadline, "the set does not go");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                objects::create(&self.world.client, &self.namespace, &self.what.set()).await.map(|_| ())
            }
        }
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(self.what.expected()).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        let all_serve = |now: &berth_e2e::record::Moment<'_>| now.available(Duration::ZERO) == wanted.pods.len();
        self.watch.until("all pods serve", PATIENCE, all_serve).await?;
        // Of the set-up, the ledger of the run has nothing.
        let made = wanted.makes - if self.what.has_set() { REPLICAS } else { 0 };
        let claims =
            if self.what.has_set() { wanted.claims.iter().filter(|at| **at >= REPLICAS).count() } else { REPLICAS };
        let claims = claims + (wanted.templates - 1) * wanted.claims.len();
        let counts = [
            (Method::POST, "pods", made),
            (Method::DELETE, "pods", wanted.deletes),
            (Method::POST, "persistentvolumeclaims", claims),
            (Method::DELETE, "persistentvolumeclaims", 0),
        ];
        laws::writes_are(&self.world.controller.ledger(), counts)?;
        if self.what.is_in_order() {
            let record = self.watch.record()?;
            for moment in record.moments() {
                let idle = moment.active() - moment.available(Duration::ZERO);
                ensure!(idle <= 1, "{idle} pods are in motion in order: {}", moment.describe());
            }
        }
        Ok(())
    }

    /// Deletes the set, and its pods with it.
    async fn clean_up(&self) -> Result<()> {
        self.delete(kind::STATEFUL_SET, SET, PropagationPolicy::Background).await
    }
}

impl StatefulRun<'_> {
    async fn patch(&self, spec: Value) -> Result<()> {
        let patch = json!({"spec": spec});
        objects::patch(&self.world.client, &self.namespace, kind::STATEFUL_SET, SET, &patch).await.map(|_| ())
    }

    async fn delete(&self, of_kind: &str, name: &str, propagation: PropagationPolicy) -> Result<()> {
        let (version, kind) = of_kind.rsplit_once('/').unwrap_or_default();
        let manifest = json!({"apiVersion": version, "kind": kind});
        let api = objects::api_of(&self.world.client, &self.namespace, &manifest)?;
        let propagation = Some(propagation);
        api.delete(name, &DeleteParams { propagation_policy: propagation, ..DeleteParams::default() }).await?;
        Ok(())
    }

    /// How it is, and why that is not what is wanted.
    async fn look_for(&self, wanted: Expected) -> Result<(Value, Option<String>)> {
        let (client, namespace) = (&self.world.client, &self.namespace);
        let list = async |kind: &str| objects::list(client, namespace, kind, "").await;
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_ready = |pod: &Value| {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let pod = |pod: &Value| {
            let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            let image = containers.find(|container| container["name"] == CONTAINER).map(|main| main["image"].clone());
            let labels = &pod["metadata"]["labels"];
            let state = &labels["lifecycle.apps.kruise.io/state"];
            json!({"image": image, "ready": is_ready(pod), "revision": labels["controller-revision-hash"], "state": state,
                   "selector": pod["spec"]["nodeSelector"]})
        };
        let pods: BTreeMap<_, _> = list(kind::POD).await?.iter().map(|it| (name(it), pod(it))).collect();
        let owners = |claim: &Value| {
            let owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.map(|owner| owner["kind"].clone()).collect::<Value>()
        };
        let claims: BTreeMap<_, _> = list(kind::CLAIM).await?.iter().map(|it| (name(it), owners(it))).collect();
        let records: BTreeMap<_, _> = list(kind::PERSISTENT_POD_STATE)
            .await?
            .iter()
            .map(|it| (name(it), it["status"]["podStates"].clone()))
            .collect();
        let sets = objects::list(client, namespace, kind::STATEFUL_SET, "").await?;
        let set = sets.first().cloned().unwrap_or_default();
        let mut status = set["status"].clone();
        // Conditions have times.
        let conditions = status.as_object_mut().and_then(|status: &mut Map<_, _>| status.remove("conditions"));
        let is_pod = |at: &usize| {
            pods.get(&format!("db-{at}")).is_some_and(|pod| pod["image"] == wanted.image && pod["ready"] == true)
        };
        let is_claim = |at: &usize| claims.contains_key(&format!("data-db-{at}"));
        // A record is taken within a second, and until then nothing else happens.
        let has_all = |records: &Value| records.as_object().is_some_and(|records| records.len() == REPLICAS);
        let is_recorded = self.what != Stateful::Recorded || records.get(SET).is_some_and(has_all);
        let done = pods.len() == wanted.pods.len()
            && is_recorded
            && wanted.pods.iter().all(is_pod)
            && claims.len() == wanted.claims.len() * wanted.templates
            && wanted.claims.iter().all(is_claim)
            && conditions.is_none()
            && status["updatedAvailableReplicas"] == wanted.pods.len()
            && status["currentRevision"] == status["updateRevision"]
            && status["observedGeneration"] == set["metadata"]["generation"];
        let now = json!({"pods": pods, "claims": claims, "records": records, "status": status});
        let flaw = (!done).then(|| format!("{now} with conditions {conditions:?}"));
        Ok((now, flaw))
    }
}
