//! The cluster that all tests share, and the objects that each test has for its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_cluster::{Cluster, Image};
use berth_e2e::ask::{Asker, Target, Targets};
use berth_e2e::install;
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::outage::Requests;
use berth_e2e::pages;
use berth_e2e::record::{PodView, Record};
use berth_e2e::site::Site;
use berth_e2e::suite::broken;
use berth_e2e::watch::{PodWatch, ReadyIps};
use kube::Client;
use serde_json::{Value, json};

/// How long any step may take on a busy machine. The tests check no times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
const NODES: u8 = 3;
/// The feature gates that tests need beside the defaults; the value replaces the chart's own.
const GATES: &str = "ImagePullJobGate=true,InPlaceWorkloadVerticalScaling=true,PodUnavailableBudgetUpdateGate=true,\
                     ResourcesDeletionProtection=true,StatefulSetAutoResizePVCGate=true";

/// The same gates as a value of the chart.
pub(crate) fn gates() -> String {
    format!("controller.featureGates={}", GATES.replace(',', "\\,"))
}

/// The cluster with Berth.
pub(crate) struct World {
    pub(crate) site: Arc<Site>,
}

impl World {
    /// Brings the cluster up and installs the chart.
    pub(crate) async fn up() -> Result<World> {
        let site = Arc::new(Site::make(NODES).await?);
        let installing = Arc::clone(&site);
        let installed = tokio::task::spawn_blocking(move || {
            installing.push_berth(!cfg!(debug_assertions))?;
            install::install(&installing, &[&gates()])
        });
        let world = World { site };
        installed.await?.with_context(|| world.logs())?;
        Ok(world)
    }

    /// The logs of Berth's own pods, for a failure.
    pub(crate) fn logs(&self) -> String {
        let of = |component: &str| {
            let selector = format!("app.kubernetes.io/component={component}");
            let kubectl = |arguments: &[&str]| {
                self.site
                    .kubectl(arguments)
                    .unwrap_or_else(|error| format!("{error:#}\n"))
            };
            let namespace = ["--namespace", install::NAMESPACE];
            let pods = kubectl(
                &[
                    &["get", "pods", "-o", "wide", "-l", &selector],
                    &namespace[..],
                ]
                .concat(),
            );
            let logs = kubectl(
                &[
                    &["logs", "--prefix", "--tail=40", "-l", &selector],
                    &namespace[..],
                ]
                .concat(),
            );
            format!("{pods}{logs}")
        };
        format!("{}\n{}", of("controller"), of("daemon"))
    }
}

/// One test: a namespace and images of its own.
pub(crate) struct Case {
    pub(crate) site: Arc<Site>,
    pub(crate) namespace: String,
}

impl Case {
    /// A test of this name, with a namespace for this try of it.
    pub(crate) async fn begin(world: &World, name: &str, number: u8) -> Result<Case> {
        let namespace = name.replace("::", "-").replace('_', "-");
        let namespace = if number == 1 {
            namespace
        } else {
            format!("{namespace}-{number}")
        };
        let case = Case {
            site: Arc::clone(&world.site),
            namespace,
        };
        objects::make_namespace(case.client(), &case.namespace).await?;
        Ok(case)
    }

    /// Removes the namespace with all its objects. If it has pods, it waits for their end, so that
    /// the next test has the nodes to itself; an empty one is gone some seconds later.
    pub(crate) async fn end(self) -> Result<()> {
        let pods = objects::list(self.client(), &self.namespace, kind::POD, "").await?;
        objects::delete_namespace(self.client(), &self.namespace).await?;
        if pods.is_empty() {
            return Ok(());
        }
        let namespace = self.namespace.clone();
        self.blocking(move |site| {
            site.kubectl(&[
                "wait",
                "--for=delete",
                "--timeout=120s",
                &format!("namespace/{namespace}"),
            ])
            .map(|_| ())
        })
        .await
    }

    pub(crate) fn client(&self) -> &Client {
        self.site.client()
    }

    pub(crate) fn cluster(&self) -> Result<Arc<Cluster>> {
        self.site
            .cluster()
            .cloned()
            .context("the tests run on a cluster of their own")
    }

    /// Runs blocking work on a thread where it delays nothing else.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Site) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let site = Arc::clone(&self.site);
        tokio::task::spawn_blocking(move || work(&site)).await?
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        self.blocking(move |site| {
            site.kubectl(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .await
    }

    pub(crate) async fn plugin(&self, arguments: &[&str]) -> Result<String> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        self.blocking(move |site| {
            site.plugin(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .await
    }

    /// Runs lines of a page or a message as they are written.
    pub(crate) async fn shell(&self, script: &str) -> Result<String> {
        let script = script.to_owned();
        self.blocking(move |site| site.shell(&script)).await
    }

    /// Runs a printed command twice.
    pub(crate) async fn twice(&self, command: &str) -> Result<()> {
        self.shell(command).await?;
        self.shell(command)
            .await
            .context("for the second time")
            .map(drop)
    }

    /// Runs each command of a message twice. A message without one is an error.
    pub(crate) async fn remedies(&self, message: &str) -> Result<()> {
        let commands = pages::commands(message);
        ensure!(!commands.is_empty(), "there is no command in: {message}");
        for command in commands {
            self.twice(&command)
                .await
                .with_context(|| message.to_owned())?;
        }
        Ok(())
    }

    /// Sets another value of the release for the time of a test: its name, that value, and the one
    /// to restore.
    pub(crate) async fn with_value(
        &self,
        [name, value, before]: [&str; 3],
        test: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let set = async |value: &str| {
            let value = format!("{name}={}", value.replace(',', "\\,"));
            self.blocking(move |site| install::set(site, &[&value]))
                .await
        };
        set(value).await?;
        let tested = test().await;
        set(before).await?;
        tested
    }

    /// Sets other feature gates for the time of a test.
    pub(crate) async fn with_gates(
        &self,
        gates: &str,
        test: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        self.with_value(["controller.featureGates", gates, GATES], test)
            .await
    }

    /// Pushes an image that answers `says`, under each of these tags of a repository of this test;
    /// returns their names.
    pub(crate) async fn images<const N: usize>(
        &self,
        says: &str,
        tags: [&str; N],
    ) -> Result<[String; N]> {
        let says = says.to_owned();
        let names = tags.map(|tag| format!("{}:{tag}", self.namespace));
        let pushed = names.clone();
        self.blocking(move |site| {
            let names: Vec<&str> = pushed.iter().map(String::as_str).collect();
            site.push(&Image::hello(&says)?, &names)
        })
        .await?;
        Ok(names.map(|name| self.site.image(&name)))
    }

    /// Pushes an image that answers with its tag.
    pub(crate) async fn image(&self, tag: &str) -> Result<String> {
        let [image] = self.images(tag, [tag]).await?;
        Ok(image)
    }

    pub(crate) async fn create(&self, manifest: &Value) -> Result<Value> {
        objects::create(self.client(), &self.namespace, manifest).await
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        objects::get(self.client(), &self.namespace, kind, name).await
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<Value> {
        objects::patch(self.client(), &self.namespace, kind, name, &patch).await
    }

    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        as_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        objects::until(
            self.client(),
            &self.namespace,
            kind,
            name,
            PATIENCE,
            as_wanted,
        )
        .await
    }

    pub(crate) async fn gone(&self, kind: &str, name: &str) -> Result<()> {
        let plain = kind.rsplit('/').next().unwrap_or(kind);
        let what = format!("{plain}/{name}");
        self.kubectl(&[
            "wait",
            "--for=delete",
            "--timeout=180s",
            "-n",
            &self.namespace,
            &what,
        ])
        .await
        .map(|_| ())
    }

    /// Creates a CloneSet and waits until all its pods are ready.
    pub(crate) async fn clone_set(
        &self,
        name: &str,
        replicas: usize,
        image: &str,
        rolling_update: Value,
    ) -> Result<Value> {
        self.create(&objects::clone_set(name, replicas, image, &rolling_update))
            .await?;
        self.done(name).await
    }

    /// Changes the image.
    pub(crate) async fn set_image(&self, name: &str, image: &str) -> Result<Value> {
        let clone_set = self.get(kind::CLONE_SET, name).await?;
        self.patch(
            kind::CLONE_SET,
            name,
            objects::image_patch(&clone_set, image),
        )
        .await
    }

    /// Changes fields of `rollingUpdate`.
    pub(crate) async fn set_strategy(&self, name: &str, rolling_update: Value) -> Result<Value> {
        self.patch(
            kind::CLONE_SET,
            name,
            json!({"spec": {"updateStrategy": {"rollingUpdate": rolling_update}}}),
        )
        .await
    }

    /// Waits until the status says that all pods are updated and ready.
    pub(crate) async fn done(&self, name: &str) -> Result<Value> {
        self.until(kind::CLONE_SET, name, objects::is_done).await
    }

    pub(crate) async fn watch(&self, name: &str) -> Result<Arc<PodWatch>> {
        let watch = PodWatch::start(
            self.client(),
            &self.namespace,
            &format!("{APP}={name}"),
            Instant::now(),
        )
        .await?;
        Ok(Arc::new(watch))
    }

    /// The pods of a CloneSet, by name.
    pub(crate) async fn pods(&self, name: &str) -> Result<BTreeMap<String, PodView>> {
        let pods = objects::list(
            self.client(),
            &self.namespace,
            kind::POD,
            &format!("{APP}={name}"),
        )
        .await?;
        let view = |pod: Value| Ok(PodView::of(&serde_json::from_value(pod)?));
        pods.into_iter()
            .map(|pod| view(pod).map(|view| (view.name.clone(), view)))
            .collect()
    }

    /// The record of in-place updates on a pod.
    pub(crate) async fn state(&self, pod: &str) -> Result<Value> {
        let pod = self.get(kind::POD, pod).await?;
        let state = pod["metadata"]["annotations"]
            [berth_api::names::annotation::INPLACE_UPDATE_STATE]
            .as_str();
        Ok(serde_json::from_str(state.with_context(|| {
            format!("pod {} has no state", pod["metadata"]["name"])
        })?)?)
    }

    /// Events of an object, as `REASON: MESSAGE`.
    pub(crate) async fn events(&self, name: &str) -> Result<Vec<String>> {
        let events = objects::list(self.client(), &self.namespace, kind::EVENT, "").await?;
        let of_object = events
            .into_iter()
            .filter(|event| event["involvedObject"]["name"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(of_object
            .map(|event| format!("{}: {}", text(&event["reason"]), text(&event["message"])))
            .collect())
    }

    /// Waits until an object has such an event, and returns it. Events are written asynchronously.
    pub(crate) async fn told(&self, name: &str, is_it: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.events(name).await?;
            if let Some(event) = events.iter().find(|event| is_it(event)) {
                return Ok(event.clone());
            }
            ensure!(
                Instant::now() < deadline,
                "no event of {name} tells of it: {events:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until `kubectl berth why` prints this of a CloneSet, as `text` or `json`, and returns
    /// it. It reads the cluster anew, a moment after the test did.
    pub(crate) async fn explained(
        &self,
        name: &str,
        output: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> Result<String> {
        self.explained_of("cloneset", name, output, is_it).await
    }

    /// The same of another kind.
    pub(crate) async fn explained_of(
        &self,
        kind: &str,
        name: &str,
        output: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> Result<String> {
        self.explained_by(&[kind, name, "-o", output], is_it).await
    }

    /// The same by these arguments.
    pub(crate) async fn explained_by(
        &self,
        arguments: &[&str],
        is_it: impl Fn(&str) -> bool,
    ) -> Result<String> {
        let command = [&["why"], arguments, &["-n", &self.namespace]].concat();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.plugin(&command).await {
                Ok(text) if is_it(&text) => return Ok(text),
                other => ensure!(
                    Instant::now() < deadline,
                    "why {arguments:?} says {other:?}"
                ),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// The tree of `get` has this part.
    pub(crate) async fn shown(&self, kind: &str, name: &str, part: &str) -> Result<()> {
        let command = ["get", kind, name, "-n", &self.namespace];
        let tree = self.plugin(&command).await?;
        ensure!(
            tree.contains(part),
            "{kind} {name}: {part:?} is not in\n{tree}"
        );
        Ok(())
    }

    /// Begins to send HTTP requests to all pods of a CloneSet.
    pub(crate) async fn ask(&self, name: &str, watch: &Arc<PodWatch>) -> Result<Asker> {
        self.create(&objects::service(name)).await?;
        let ready = ReadyIps::start(self.client(), &self.namespace, name).await?;
        let pods = Arc::clone(watch);
        let targets: Targets = Arc::new(move || {
            let ready = ready.now();
            let pods = pods
                .pods()
                .unwrap_or_default()
                .into_iter()
                .filter(|pod| !pod.ip.is_empty());
            pods.map(|pod| Target {
                called_ready: ready.contains(&pod.ip),
                pod: pod.name,
                ip: pod.ip,
            })
            .collect()
        });
        Ok(Asker::start(
            self.site.way(&self.namespace),
            targets,
            watch.began(),
        ))
    }

    /// Ends the requests and returns them.
    pub(crate) async fn answers(&self, asker: Asker) -> Result<Requests> {
        tokio::task::spawn_blocking(move || asker.stop()).await?
    }
}

/// A rollout in place, two pods at a time, each out of service for so many seconds before its image
/// changes.
pub(crate) fn two_at_a_time(grace_period_seconds: u32) -> Value {
    json!({
        "podUpdatePolicy": "InPlaceIfPossible",
        "maxUnavailable": 2,
        "inPlaceUpdateStrategy": {"gracePeriodSeconds": grace_period_seconds},
    })
}

/// The pods are the same as before: uid, node, IP, and each container restarted so many times more.
pub(crate) fn ensure_in_place(
    before: &BTreeMap<String, PodView>,
    after: &BTreeMap<String, PodView>,
    restarts: i32,
) -> Result<()> {
    if !before.keys().eq(after.keys()) {
        return Err(broken(format!(
            "other pods: before {:?}, after {:?}",
            before.keys(),
            after.keys()
        )));
    }
    for (before, after) in before.values().zip(after.values()) {
        let identity = |pod: &PodView| (pod.uid.clone(), pod.node.clone(), pod.ip.clone());
        if identity(before) != identity(after) {
            return Err(broken(format!(
                "not the same pod: before {before:?}, after {after:?}"
            )));
        }
        let restarted = after.restarts() - before.restarts();
        ensure!(
            restarted == restarts,
            "{} restarted {restarted} times, not {restarts}",
            after.name
        );
    }
    Ok(())
}

/// No pod's wanted image changed while the pod's gate was open.
pub(crate) fn ensure_gated(record: &Record, container: &str) -> Result<()> {
    let mut last: BTreeMap<&str, &PodView> = BTreeMap::new();
    for entry in record.entries() {
        let berth_e2e::record::Change::Is(pod) = &entry.change else {
            continue;
        };
        if let Some(before) = last.insert(&pod.uid, pod) {
            let image = |pod: &PodView| pod.containers.get(container).map(|c| c.wanted.clone());
            if image(before) != image(pod) && before.gates {
                return Err(broken(format!(
                    "{} was in service when its image was changed: {before:?}",
                    pod.name
                )));
            }
        }
    }
    Ok(())
}
