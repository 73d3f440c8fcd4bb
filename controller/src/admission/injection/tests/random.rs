//! Random SidecarSets, namespaces and pods on a real apiserver. [`worlds`] computes independently,
//! in plain words, for which pods the webhook is called and what they get. Needs root, as
//! `berth-cluster` does.

mod worlds;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_api::names::annotation::{
    SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_INJECTED_LIST, SIDECARSET_REFUSED,
};
use berth_api::names::env::IS_INJECTED;
use berth_cluster::{Cluster, Options, address};
use berth_runtime::{Resource, client, object};
use berth_webhook::PodWebhook;
use berth_webhook::pods::{self, Asks, Injected, Injector, Labels, Lacks, MUTATING, ReadinessGate};
use berth_workload::feature_gates::Gates;
use berth_workload::plan::{Action, Body, Plan, Step};
use kube::Client;
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::admission::injection::{Injection, InjectionStores};
use crate::admission::webhook_rules::WebhookRule;
use crate::controllers::sidecarset::SidecarSetController;
use crate::reconcile::controller::Controller;
use crate::start::real_apiserver::{self, request};
use crate::stores::reads::{Namespaces, Stores};
use worlds::{
    Expected, NAMESPACES, NewPod, OF_NAMESPACES, OURS, PROTECTED, Set, UNKNOWN, UNTOUCHED, expected,
};

const WORLDS: usize = 100;
const PODS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// A namespace whose pods only show whether the entries are in force.
const PROBED: &str = "default";

/// The real injector; notes of each answer whether it changes the pod.
#[derive(Debug)]
struct Counted {
    injection: Arc<Injection>,
    answers: Mutex<Vec<bool>>,
}

impl Injector for Counted {
    fn inject(
        &self,
        namespace: &str,
        labels: Option<&Labels>,
        pod: &Value,
    ) -> Result<Injected, Lacks> {
        if namespace == PROBED {
            return Ok(Injected::default());
        }
        let answer = self.injection.inject(namespace, labels, pod);
        // If the namespace is missing, the webhook calls once more.
        if let Ok(injected) = &answer {
            self.answers.lock().push(injected.pod.is_some());
        }
        answer
    }

    /// The entry for the readiness gate calls for all pods, so it does not show for which pods the
    /// injection is called.
    fn inject_ahead(&self, _: &str, _: &Value) -> Option<Value> {
        None
    }

    fn faults(&self, _: &str, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }
}

struct Scene {
    client: Client,
    stores: Stores,
    reads: SidecarSetController,
    counted: Arc<Counted>,
    webhook: PodWebhook,
    namespaces: Vec<(&'static str, Labels)>,
    /// Numbers of pods: never called for, with sidecars, with sidecars left out, denied, and
    /// further calls for a pod.
    seen: [usize; 5],
}

impl Scene {
    async fn look(&self, resource: Resource) -> Result<()> {
        let namespaces = Namespaces {
            own: OURS.to_owned(),
            explained: OURS.to_owned(),
        };
        let looked = self
            .stores
            .look(&self.client, &namespaces, |of| of == resource)
            .await;
        let unread = looked.map_err(|failed| anyhow::anyhow!("{failed:?}"))?;
        anyhow::ensure!(unread.is_empty(), "some resources may not be read");
        Ok(())
    }

    async fn create(&self, namespace: &str, pod: &Value) -> kube::Result<Value> {
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        request(&self.client, "POST", &path, pod).await
    }

    /// Namespaces with random labels; the stores never see some of them.
    async fn make_namespaces(&mut self, random: &mut TestRunner) -> Result<()> {
        for name in NAMESPACES {
            if *name == UNKNOWN[0] {
                self.look(object::NAMESPACES).await?;
            }
            let mut labels = sample(&worlds::labels(OF_NAMESPACES), random);
            if *name == UNTOUCHED {
                labels.insert(pods::UNTOUCHED.0.to_owned(), pods::UNTOUCHED.1.to_owned());
            }
            let namespace = json!({"metadata": {"name": name, "labels": labels}});
            request(&self.client, "POST", "/api/v1/namespaces", &namespace).await?;
            self.namespaces.push((name, labels));
        }
        for name in NAMESPACES.iter().chain(&[PROBED, PROTECTED, OURS]) {
            // Retries until the namespace has its service account.
            until(async || Ok(self.create(name, &plain()).await?))
                .await
                .context(*name)?;
        }
        Ok(())
    }

    /// Puts exactly these SidecarSets in force. Every other time each pod gets the readiness gate,
    /// which shows that the entries are in force.
    async fn bring(&self, sets: &[Set], is_gated: bool) -> Result<()> {
        let revisions = format!("/apis/apps/v1/namespaces/{OURS}/controllerrevisions");
        for old in ["/apis/apps.kruise.io/v1beta1/sidecarsets", &revisions] {
            request(&self.client, "DELETE", old, &Value::Null).await?;
        }
        for set in sets {
            let path = format!("/apis/apps.kruise.io/{}/sidecarsets", set.version());
            let made = request(&self.client, "POST", &path, &set.json())
                .await
                .with_context(|| set.json())?;
            if let Some(revision) = set.revision(&made["metadata"]["uid"]) {
                request(&self.client, "POST", &revisions, &revision).await?;
            }
        }
        self.look(object::SIDECAR_SETS).await?;
        self.look(object::CONTROLLER_REVISIONS).await?;
        ensure!(
            self.reads.sets.len() == sets.len(),
            "the stores have other SidecarSets"
        );
        let mut asks = Asks::default();
        ensure!(
            self.counted.injection.add_to(&mut asks),
            "the stores are not complete"
        );
        if is_gated {
            asks.readiness_gate = ReadinessGate::of_all_but(BTreeSet::new());
        }
        self.webhook.wanted.send_replace(Some(asks));
        until(async || {
            let pod = self.create(PROBED, &plain()).await?;
            ensure!(
                pod["spec"]["readinessGates"].is_array() == is_gated,
                "the entries are not in force"
            );
            Ok(())
        })
        .await
    }

    /// Creates the pod three times: as its author has it; as the apiserver answers, with records
    /// that look old; and with other containers in place of the sidecars.
    async fn check(&mut self, sets: &[Set], pod: &NewPod) -> Result<()> {
        let labels = self
            .namespaces
            .iter()
            .find(|(name, _)| *name == pod.namespace)
            .map(|(_, labels)| labels.clone());
        let expected = expected(sets, &labels.unwrap_or_default(), pod);
        self.check_probe(pod, &expected).await?;
        self.counted.answers.lock().clear();
        let answer = self.create(pod.namespace, &pod.json()).await;
        let answers = std::mem::take(&mut *self.counted.answers.lock());
        ensure!(
            expected.is_called != answers.is_empty(),
            "expected {expected:?}, answers {answers:?}, {answer:?}"
        );
        self.note(&expected, &answers);
        if expected.is_denied {
            let why = answer.err().context("it is not denied")?.to_string();
            let is_told = expected
                .refused
                .iter()
                .any(|set| why.contains(&format!("SidecarSet {set} ")));
            ensure!(is_told, "{why}");
            return Ok(());
        }
        self.check_ours(pod, &expected)?;
        let created = answer?;
        ensure!(
            answers.contains(&true) == expected.is_called,
            "no answer changes it: {answers:?}"
        );
        has(&created, &expected)?;
        let again = aged(created);
        let second = as_sent(self.create(pod.namespace, &again).await?);
        let answers = std::mem::take(&mut *self.counted.answers.lock());
        ensure!(
            expected.is_called != answers.is_empty(),
            "the second time: {answers:?}"
        );
        ensure!(second == again, "twice is not once:\n{again:#}\n{second:#}");
        if !expected.gets.is_empty() {
            let third = aged(self.create(pod.namespace, &forged(again.clone())).await?);
            ensure!(
                third == again,
                "a counterfeit is not replaced:\n{again:#}\n{third:#}"
            );
        }
        Ok(())
    }

    /// A dry run by which the controller checks whether calls are answered has a warning for each
    /// SidecarSet, denied or not.
    async fn check_probe(&self, pod: &NewPod, expected: &Expected) -> Result<()> {
        let mut probe = pod.json();
        probe["metadata"]["name"] = Value::Null;
        probe["metadata"]["generateName"] = json!(pods::PROBE);
        let collection = format!("/api/v1/namespaces/{}/pods", pod.namespace);
        let said = client::dry_run(&self.client, &collection, &probe, PATIENCE).await?;
        let gets = expected
            .gets
            .iter()
            .all(|set| pods::says_applied(&said.warnings, set));
        let refused = expected
            .refused
            .iter()
            .all(|set| pods::says_left_out(&said.warnings, set).is_some());
        let is_called = said
            .warnings
            .iter()
            .any(|warning| warning.ends_with(" was asked"));
        ensure!(
            gets && refused && is_called == expected.is_called,
            "a probe: expected {expected:?}, {said:?}"
        );
        Ok(())
    }

    /// A pod that we create ourselves has all its sidecars before it is sent, if the webhook would
    /// be called for it.
    fn check_ours(&self, pod: &NewPod, expected: &Expected) -> Result<()> {
        let mut plan = Plan::default();
        let action = Action::CreatePod {
            body: Body::from(&pod.json()),
        };
        plan.add_stage("pods", vec![Step::new(action, "one is missing".to_owned())]);
        let is_changed = *self.counted.injection.with_sidecars(&plan) != plan;
        let is_to_be = expected.is_called && !UNKNOWN.contains(&pod.namespace);
        ensure!(
            is_changed == is_to_be,
            "a pod of ours: expected {expected:?}"
        );
        Ok(())
    }

    fn note(&mut self, expected: &Expected, answers: &[bool]) {
        let Expected {
            is_called,
            gets,
            refused,
            is_denied,
            ..
        } = expected;
        let is = [
            !is_called,
            !is_denied && !gets.is_empty(),
            !is_denied && !refused.is_empty(),
            *is_denied,
        ];
        self.seen
            .iter_mut()
            .zip(is)
            .for_each(|(seen, is)| *seen += usize::from(is));
        self.seen[4] += answers.len().saturating_sub(1);
    }
}

fn plain() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "i"}]}})
}

/// Has the pod what it is to have?
fn has(pod: &Value, expected: &Expected) -> Result<()> {
    let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str();
    let gets = annotation(SIDECARSET_INJECTED_LIST)
        .into_iter()
        .flat_map(|list| list.split(','));
    let gets: BTreeSet<_> = gets.map(str::to_owned).collect();
    let refused: Value = serde_json::from_str(annotation(SIDECARSET_REFUSED).unwrap_or("{}"))?;
    let refused: BTreeSet<_> = refused
        .as_object()
        .into_iter()
        .flatten()
        .map(|(set, _)| set.clone())
        .collect();
    ensure!(
        (&expected.gets, &expected.refused) == (&gets, &refused),
        "expected {expected:?}, found in {pod:#}"
    );
    let lists = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| pod["spec"][list].as_array());
    let containers: Vec<_> = lists
        .flatten()
        .map(|of| (of["name"].as_str(), of["image"].as_str()))
        .collect();
    let may_have = |name: &str| expected.containers.get(name).map_or(&[][..], Vec::as_slice);
    let is_as_expected = |(name, image): &(Option<&str>, Option<&str>)| {
        name.zip(*image)
            .is_some_and(|(name, image)| may_have(name).contains(&image))
    };
    let are_all =
        containers.len() == expected.containers.len() && containers.iter().all(is_as_expected);
    ensure!(are_all, "expected {expected:?}, found {containers:?}");
    Ok(())
}

/// The pod as it is sent to be created: without the fields that the apiserver adds to each object.
fn as_sent(mut pod: Value) -> Value {
    pod["status"] = Value::Null;
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        pod["metadata"].as_object_mut().unwrap().remove(field);
    }
    pod
}

/// The pod with old times in its records: a second call at another time must not write new ones.
fn aged(pod: Value) -> Value {
    let mut pod = as_sent(pod);
    let field = "\"updateTimestamp\":\"";
    for key in [SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE] {
        let Some(text) = pod["metadata"]["annotations"][key].as_str() else {
            continue;
        };
        let mut parts = text.split(field);
        let begin = parts.next().unwrap_or_default().to_owned();
        let time = "2020-01-02T03:04:05Z";
        let text = parts.fold(begin, |text, part| {
            format!("{text}{field}{time}{}", &part[time.len()..])
        });
        pod["metadata"]["annotations"][key] = json!(text);
    }
    pod
}

/// The pod with other containers in place of those that have the mark, and a record that is no
/// JSON.
fn forged(mut pod: Value) -> Value {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let mark = json!({"name": IS_INJECTED, "value": "true"});
            if container["env"]
                .as_array()
                .is_some_and(|env| env.contains(&mark))
            {
                *container = json!({"name": container["name"], "image": "evil:1", "command": ["x"], "env": [mark]});
            }
        }
    }
    pod["metadata"]["annotations"][SIDECARSET_HASH_WITHOUT_IMAGE] = json!("[1");
    pod
}

fn sample<S: Strategy>(strategy: &S, random: &mut TestRunner) -> S::Value {
    strategy.new_tree(random).unwrap().current()
}

/// Tries until it works; after too long it returns the last error.
async fn until<T>(attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match attempt().await {
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Ok(done) => return Ok(done),
        }
    }
}

async fn play(cluster: &Cluster) -> Result<()> {
    let client = real_apiserver::connect(cluster).await?;
    let mut stores = Stores::default();
    let reads = SidecarSetController::new(&mut stores.reader());
    let read = InjectionStores::new(&mut stores.reader());
    let injection = Injection::new(
        Arc::default(),
        Gates::default(),
        OURS,
        PROTECTED,
        Some(read),
    );
    let counted = Arc::new(Counted {
        injection,
        answers: Mutex::default(),
    });
    let (_end, ended) = tokio::sync::oneshot::channel::<()>();
    let ended = async move { drop(ended.await) };
    let handle = berth_webhook::run(webhook(counted.clone()), client.clone(), ended).await?;
    let readiness = handle.readiness();
    until(async || readiness.check().map_err(anyhow::Error::msg)).await?;
    let webhook = handle.pods();
    let mut scene = Scene {
        client,
        stores,
        reads,
        counted,
        webhook,
        namespaces: Vec::new(),
        seen: [0; 5],
    };
    let mut random = TestRunner::new(Config::default());
    scene.make_namespaces(&mut random).await?;
    for world in 0..WORLDS {
        let count = world % 5 + 1;
        let sets = sample(
            &(0..count).map(worlds::set).collect::<Vec<_>>(),
            &mut random,
        );
        scene
            .bring(&sets, world % 2 == 0)
            .await
            .with_context(|| format!("world {world}: {sets:?}"))?;
        for pod in sample(&vec(worlds::new_pod(), PODS), &mut random) {
            let checked = scene.check(&sets, &pod).await;
            checked.with_context(|| {
                format!(
                    "world {world}: {pod:?} in {:?} with {sets:?}",
                    scene.namespaces
                )
            })?;
        }
    }
    ensure!(
        scene.seen.iter().all(|seen| *seen >= WORLDS / 4),
        "too little was seen: {:?}",
        scene.seen
    );
    errs_nowhere(&scene.client).await
}

/// No condition had an error, and no call failed.
async fn errs_nowhere(client: &Client) -> Result<()> {
    let metrics = client
        .request_text(http::Request::get("/metrics").body(Vec::new())?)
        .await?;
    let errors = [
        "apiserver_admission_match_condition_evaluation_errors_total",
        "apiserver_admission_webhook_fail_open",
    ];
    let told: Vec<_> = metrics
        .lines()
        .filter(|line| errors.iter().any(|error| line.starts_with(error)))
        .collect();
    ensure!(told.is_empty(), "{told:#?}");
    ensure!(
        metrics.contains("apiserver_admission_match_condition_evaluation_seconds"),
        "conditions are not counted"
    );
    Ok(())
}

fn webhook(injector: Arc<Counted>) -> berth_webhook::Config {
    berth_webhook::Config {
        token: None,
        namespace: OURS.to_owned(),
        service: "unused".to_owned(),
        extra_services: Vec::new(),
        secret: "certs".to_owned(),
        bind: SocketAddr::from((address::CONTROL_PLANE, 0)),
        host: Some(address::CONTROL_PLANE.to_string()),
        host_port: None,
        cert_validity: Duration::from_secs(86_400),
        ca_validity: Duration::from_secs(864_000),
        // Without validation, because its refusals are tested elsewhere: here SidecarSets may
        // collide in a pod.
        validating: false,
        pods: true,
        records: None,
        budgets: None,
        injector: Some(injector),
        pod: None,
        closed: Default::default(),
        validity: Default::default(),
        reviews: Default::default(),
        refused_deletions: Default::default(),
        object_max_bytes: 256 << 10,
        drain: Duration::ZERO,
    }
}

#[test]
fn random_pods_reach_webhook_only_if_it_changes_them() {
    let cluster = Cluster::up(&Options::default()).unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": MUTATING}, "webhooks": [],
    });
    cluster
        .kubectl_with(&["create", "-f", "-"], Some(&configuration.to_string()))
        .unwrap();
    cluster.kubectl(&["create", "namespace", OURS]).unwrap();
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/berth/files/crds");
    cluster.kubectl(&["create", "-f", definitions]).unwrap();
    let played = cluster.in_network(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(play(&cluster))
    });
    played.unwrap().unwrap();
}
