//! SidecarSets: pods of nobody, which got their containers when they were created, get new images of them in place.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::record::{Moment, Record};
use berth_e2e::watch::PodWatch;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, try_join_all};
use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::group::WorldKind;
use crate::run::{self, Attempt, Outcome};
use crate::scenario::{Run, Scenario};
use crate::sidecar_laws::{EMPTY, HASH, Held, LIST, STATE, WORKING, form};
use crate::stateful_set::pod_template;
use crate::world::{MUTATING, NAMESPACE, ONE, PATIENCE, TWO, World};
use crate::{laws, sidecar_laws};

const PODS: [&str; 4] = ["web-0", "web-1", "web-2", "web-3"];
/// So many pods may be out of service for one SidecarSet.
const MAX_UNAVAILABLE: usize = 1;
const CONFIGURATION: &str = "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration";
const REVISION: &str = "apps/v1/ControllerRevision";
/// On a revision: the SidecarSet that it is of.
const OF_SET: &str = "kruise.io/sidecarset-name";

/// A thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sidecar {
    /// A SidecarSet gets another image, and each pod a new container in place of the old one.
    Cold,
    /// The same with two containers, of which one always works.
    Hot,
    /// Two SidecarSets get other images, and write the same pods.
    Two,
}

/// All, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[&Sidecar::Cold, &Sidecar::Hot, &Sidecar::Two];

impl Scenario for Sidecar {
    fn name(&self) -> &'static str {
        match self {
            Sidecar::Cold => "sidecar_cold",
            Sidecar::Hot => "sidecar_hot",
            Sidecar::Two => "sidecar_two",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &WorldKind::SIMULATED
    }

    fn watched(&self) -> Vec<&'static str> {
        vec!["sidecarsets", "pods", "controllerrevisions"]
    }

    fn merged(&self) -> &'static [&'static str] {
        &["sidecarsets/status"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        run::run::<SidecarRun<'_>>(*self, attempt).boxed_local()
    }
}

/// A SidecarSet of a scenario: as its name ends, its container, and whether that is two in pods.
#[derive(Debug, Clone, Copy)]
struct Kept {
    suffix: &'static str,
    container: &'static str,
    is_hot: bool,
}

impl Sidecar {
    fn sets(self) -> &'static [Kept] {
        const AGENT: Kept = Kept { suffix: "agent", container: "agent", is_hot: false };
        const HOT: Kept = Kept { suffix: "mesh", container: "mesh", is_hot: true };
        match self {
            Sidecar::Cold => &[AGENT],
            Sidecar::Hot => &[HOT],
            Sidecar::Two => &[AGENT, Kept { is_hot: false, ..HOT }],
        }
    }

    /// So often each pod's images are written.
    fn writes(self) -> usize {
        self.sets().iter().map(|set| if set.is_hot { 2 } else { 1 }).sum()
    }
}

impl Kept {
    /// SidecarSets are in no namespace, so their names have that of the run.
    fn name(self, namespace: &str) -> String {
        format!("{namespace}-{}", self.suffix)
    }

    fn containers(self, image: &str) -> Value {
        let mut container = json!({"name": self.container, "image": image});
        if self.is_hot {
            container["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
        }
        json!([container])
    }

    /// Nothing is updated by it yet, so that no pod has been told of.
    fn manifest(self, namespace: &str) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {
                "name": self.name(namespace), "annotations": {"apps.kruise.io/sidecarset-failure-policy": "Fail"},
            },
            "spec": {
                "selector": {"matchLabels": {APP: namespace}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "containers": self.containers(ONE),
                "updateStrategy": {"type": "NotUpdate", "maxUnavailable": MAX_UNAVAILABLE},
            },
        })
    }
}

/// SidecarSets, and pods in a namespace of its own.
pub(crate) struct SidecarRun<'a> {
    world: &'a World,
    what: Sidecar,
    namespace: String,
    watch: PodWatch,
    /// When the set-up was done, since the watch began.
    from: Duration,
}

impl<'a> Run<'a> for SidecarRun<'a> {
    type Scenario = Sidecar;

    async fn begin(world: &'a World, namespace: &str, what: Sidecar) -> Result<Self> {
        let watch = PodWatch::start(&world.client, namespace, &format!("{APP}={namespace}"), Instant::now()).await?;
        Ok(SidecarRun { world, what, namespace: namespace.to_owned(), watch, from: Duration::ZERO })
    }

    async fn set_up(&mut self) -> Result<()> {
        let client = &self.world.client;
        for set in self.what.sets() {
            objects::create(client, "", &set.manifest(&self.namespace)).await?;
        }
        for set in self.what.sets() {
            let name = set.name(&self.namespace);
            objects::until(client, "", kind::SIDECAR_SET, &name, PATIENCE, is_asked).await?;
        }
        for name in PODS {
            self.create_pod(name).await?;
        }
        run::rest(&self.world.controller, || self.look_for(ONE)).await?;
        self.caught_up(ONE).await?;
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        let change = async |set: &Kept| {
            let spec = json!({"containers": set.containers(TWO), "updateStrategy": {"type": "RollingUpdate"}});
            let name = set.name(&self.namespace);
            objects::patch(&self.world.client, "", kind::SIDECAR_SET, &name, &json!({"spec": spec})).await
        };
        try_join_all(self.what.sets().iter().map(change)).await.map(drop)
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(TWO).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        self.caught_up(TWO).await?;
        self.check_writes()?;
        let record = self.watch.record()?.since(self.from);
        laws::begins_with(&record, PODS.len())?;
        laws::pods_are_created(&record, 0)?;
        let sets = self.what.sets();
        let held = sets.iter().map(|set| self.held(*set, &record)).collect::<Result<Vec<_>>>()?;
        for set in &held {
            self.has_a_revision_for_each_form(set).await?;
        }
        sidecar_laws::check(&record, &held, sets.len() * MAX_UNAVAILABLE)
    }

    /// Takes away what there is, and waits until nothing is left in what all runs share.
    async fn clean_up(&self) -> Result<()> {
        for set in self.what.sets() {
            self.delete("", kind::SIDECAR_SET, &set.name(&self.namespace)).await?;
        }
        for name in PODS {
            self.delete(&self.namespace, kind::POD, name).await?;
        }
        let nothing = async || {
            let configuration = objects::get(&self.world.client, "", CONFIGURATION, MUTATING).await?;
            let mut revisions = 0;
            for set in self.what.sets() {
                revisions += self.revisions(&set.name(&self.namespace)).await?.len();
            }
            let is_clean = revisions == 0 && !configuration.to_string().contains(&self.namespace);
            Ok(((), (!is_clean).then(|| format!("{revisions} revisions are left, and {configuration}"))))
        };
        run::rest(&self.world.controller, nothing).await
    }
}

impl SidecarRun<'_> {
    /// Creates a pod with the containers of all SidecarSets. An apiserver may ask for them a moment after it was told to.
    async fn create_pod(&self, name: &str) -> Result<()> {
        let mut pod = pod_template();
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        (pod["metadata"]["name"], pod["metadata"]["labels"][APP]) = (json!(name), json!(self.namespace));
        let mut sets: Vec<_> = self.what.sets().iter().map(|set| set.name(&self.namespace)).collect();
        sets.sort();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let created = objects::create(&self.world.client, &self.namespace, &pod).await;
            match created {
                Ok(created) if created["metadata"]["annotations"][LIST] == sets.join(",") => return Ok(()),
                Ok(_) => self.delete(&self.namespace, kind::POD, name).await?,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
            ensure!(Instant::now() < deadline, "pod {name} does not get its containers in {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the record has what there is.
    async fn caught_up(&self, image: &str) -> Result<()> {
        let all_have_it = |now: &Moment<'_>| {
            let has_it = |pod: &berth_e2e::record::PodView| pod.containers.values().any(|it| it.wanted == image);
            now.available(Duration::ZERO) == PODS.len() && now.pods.values().all(|standing| has_it(standing.pod))
        };
        self.watch.until("all pods serve with their images", PATIENCE, all_have_it).await.map(drop)
    }

    fn check_writes(&self) -> Result<()> {
        let sets = self.what.sets().len();
        let counts = [
            (Method::POST, "pods", 0),
            (Method::DELETE, "pods", 0),
            (Method::PATCH, "pods", PODS.len() * self.what.writes()),
            (Method::PATCH, "pods/status", PODS.len() * sets),
            (Method::POST, "controllerrevisions", sets),
            (Method::PATCH, "controllerrevisions", 0),
            (Method::DELETE, "controllerrevisions", 0),
            // The two hashes, told once for each as its containers change.
            (Method::PATCH, "sidecarsets", sets),
            (Method::PATCH, "mutatingwebhookconfigurations", 0),
        ];
        let ledger = self.world.controller.ledger();
        laws::writes_are(&ledger, counts)?;
        sidecar_laws::each_pod_is_written(&ledger, PODS, ("pods", self.what.writes()))?;
        sidecar_laws::each_pod_is_written(&ledger, PODS, ("pods/status", sets))
    }

    /// The SidecarSet with the forms that pods have of it at first and in the end.
    fn held(&self, set: Kept, record: &Record) -> Result<Held> {
        let name = set.name(&self.namespace);
        let form_at = |moment: Moment<'_>| {
            let pod = moment.pods.values().next().map(|standing| standing.pod).context("there are no pods")?;
            form(pod, &name)
        };
        let forms = [form_at(record.moments().next().unwrap_or_default())?, form_at(record.last())?];
        let [old, new] = &forms;
        ensure!(old.0 != new.0 && old.1 != new.1, "its record is as before: {forms:?}");
        Ok(Held { container: set.container, is_hot: set.is_hot, forms, name })
    }

    /// The history is those that pods had and have, each once.
    async fn has_a_revision_for_each_form(&self, set: &Held) -> Result<()> {
        let revisions = self.revisions(&set.name).await?;
        let has = |revision: &Value| {
            let metadata = &revision["metadata"];
            (text(&metadata["annotations"][HASH]), text(&metadata["name"]))
        };
        let mut found: Vec<_> = revisions.iter().map(|it| (it["revision"].as_i64(), has(it))).collect();
        found.sort();
        let found: Vec<_> = found.into_iter().map(|(_, form)| form).collect();
        ensure!(found == set.forms, "the history is {found:?}, and pods had {:?}", set.forms);
        Ok(())
    }

    async fn revisions(&self, set: &str) -> Result<Vec<Value>> {
        objects::list(&self.world.client, NAMESPACE, REVISION, &format!("{OF_SET}={set}")).await
    }

    async fn delete(&self, namespace: &str, of_kind: &str, name: &str) -> Result<()> {
        let (version, kind) = of_kind.rsplit_once('/').context("no version")?;
        let api = objects::api_of(&self.world.client, namespace, &json!({"apiVersion": version, "kind": kind}))?;
        api.delete(name, &DeleteParams::background().grace_period(0)).await?;
        Ok(())
    }

    /// How it is, and why not all containers of SidecarSets have this image.
    async fn look_for(&self, image: &str) -> Result<(Value, Option<String>)> {
        let client = &self.world.client;
        let pods = objects::list(client, &self.namespace, kind::POD, "").await?;
        let mut sets = BTreeMap::new();
        for set in self.what.sets() {
            let object = objects::get(client, "", kind::SIDECAR_SET, &set.name(&self.namespace)).await?;
            sets.insert(set.suffix, self.set_flaw(*set, &object, &pods, image));
        }
        let flaw = sets.values().find_map(|(_, flaw)| flaw.clone());
        let sets: BTreeMap<_, _> = sets.into_iter().map(|(name, (set, _))| (name, set)).collect();
        let pods: BTreeMap<_, _> = pods.iter().map(|it| (text(&it["metadata"]["name"]), pod(it))).collect();
        let now = json!({"sets": sets, "pods": pods}).to_string().replace(&self.namespace, "NAMESPACE");
        Ok((serde_json::from_str(&now)?, flaw.map(|flaw| format!("{flaw}: {now}"))))
    }

    /// The SidecarSet's status, and what is not as it is to be with this image.
    fn set_flaw(&self, set: Kept, object: &Value, pods: &[Value], image: &str) -> (Value, Option<String>) {
        let mut status = object["status"].clone();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = Value::Null;
        }
        let all = ["matchedPods", "updatedPods", "readyPods", "updatedReadyPods"];
        let is_told = all.iter().all(|count| status[count] == PODS.len())
            && status["injection"]["injected"] == PODS.len()
            && status["observedGeneration"] == object["metadata"]["generation"];
        let is_upgradable = |pod: &Value| {
            let condition = condition(pod, "SidecarSetUpgradable");
            let sets: Value = serde_json::from_str(&text(&condition["message"])).unwrap_or_default();
            condition["status"] == "True" && sets[set.name(&self.namespace)] == true
        };
        let wanted = if set.is_hot { vec![EMPTY, image] } else { vec![image] };
        let has_it = |pod: &&Value| {
            let own = pod["spec"]["containers"].as_array().into_iter().flatten();
            let own = own.filter(|it| text(&it["name"]).starts_with(set.container));
            let mut images: Vec<_> = own.map(|it| it["image"].as_str().unwrap_or_default()).collect();
            images.sort_unstable();
            images == wanted && (image == ONE || is_upgradable(pod)) && condition(pod, "Ready")["status"] == "True"
        };
        let done = pods.iter().filter(has_it).count();
        let is_done = is_told && done == PODS.len() && pods.len() == PODS.len();
        let flaw = (!is_done).then(|| format!("{done} of {} pods are as {} wants them", pods.len(), set.suffix));
        (status, flaw)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn condition(object: &Value, type_: &str) -> Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == type_).cloned().unwrap_or_default()
}

fn is_asked(set: &Value) -> bool {
    condition(set, "InjectionReady")["status"] == "True"
}

/// A pod without times and versions.
fn pod(pod: &Value) -> Value {
    let annotations = &pod["metadata"]["annotations"];
    let parsed = |key: &str| serde_json::from_str::<Value>(&text(&annotations[key])).unwrap_or_default();
    let mut records = parsed(HASH);
    for (_, record) in records.as_object_mut().into_iter().flatten() {
        record["updateTimestamp"] = Value::Null;
    }
    let states = parsed(STATE);
    let state = |(set, state): (&String, &Value)| {
        let before = state["lastContainerStatuses"].as_object().into_iter().flatten();
        let before: BTreeMap<_, _> = before.map(|(name, status)| (name.clone(), status["imageID"].clone())).collect();
        (set.clone(), json!([state["revision"], before]))
    };
    let states: BTreeMap<_, _> = states.as_object().into_iter().flatten().map(state).collect();
    let versions = annotations.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("version"));
    let versions: BTreeMap<_, _> = versions.map(|(key, version)| (key.clone(), version != "0")).collect();
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let containers: BTreeMap<_, _> =
        statuses.map(|it| (text(&it["name"]), json!([it["image"], it["restartCount"], it["ready"]]))).collect();
    let upgradable = condition(pod, "SidecarSetUpgradable");
    json!({
        "records": records, "states": states, "versions": versions, "working": annotations[WORKING],
        "list": annotations[LIST], "containers": containers, "upgradable": [upgradable["status"], upgradable["message"]],
    })
}
