//! The clusters that the cases share, each with the controller behind its proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use berth_cluster::programs::workspace_binary;
use berth_cluster::{Cluster, Component, Image, Options, address};
use berth_e2e::objects::{self, kind};
use berth_faults::{Controller, Fault, Program};
use berth_simnode::kubelet::image_id;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use crate::case;
use crate::ending::Ending;
use crate::scenario::Scenario;

/// How long anything may take on a busy machine. Nothing is asserted about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The images. Every CloneSet has pods of its own, so none of them meets the kubelet's restart back-off.
pub(crate) const ONE: &str = "faults:one";
pub(crate) const TWO: &str = "faults:two";
/// No registry has it.
pub(crate) const MISSING: &str = "faults:missing";
const NAMESPACE: &str = "kruise-system";
/// The node that simnode plays.
const SIMULATED: &str = "sim-0";

/// How a scenario goes without a fault.
#[derive(Debug, Clone)]
pub(crate) struct Undisturbed {
    pub(crate) writes: usize,
    pub(crate) ending: Ending,
}

/// Both kinds of cluster, each once it is needed.
#[derive(Default)]
pub(crate) struct Worlds {
    real: OnceCell<World>,
    simulated: OnceCell<World>,
}

impl Worlds {
    /// With one node, its kubelet, containerd and daemon.
    pub(crate) async fn real(&self) -> Result<&World> {
        self.real.get_or_try_init(World::real).await
    }

    /// With one node that `simnode` plays, and all its pods at once.
    pub(crate) async fn simulated(&self) -> Result<&World> {
        self.simulated.get_or_try_init(World::simulated).await
    }
}

/// In the order in which they must end.
pub(crate) struct World {
    pub(crate) controller: Controller,
    /// The daemon, or the simulated node.
    _helper: Child,
    pub(crate) cluster: Cluster,
    /// The controller's binary.
    pub(crate) program: PathBuf,
    pub(crate) client: Client,
    /// The only node.
    pub(crate) node: &'static str,
    /// The digests of the images by name.
    pub(crate) digests: BTreeMap<&'static str, String>,
    directory: TempDir,
    undisturbed: Mutex<BTreeMap<Scenario, Undisturbed>>,
    /// What has befallen the controller.
    pub(crate) struck: Mutex<BTreeSet<(Scenario, Fault)>>,
    cases: AtomicUsize,
}

impl World {
    async fn real() -> Result<World> {
        let made = || {
            let cluster = match env::var("BERTH_CLUSTER") {
                Ok(name) => Cluster::attach(&name)?,
                Err(_) => Cluster::up(&Options { nodes: 1, ..Options::default() })?,
            };
            let digests = [ONE, TWO].map(|name| anyhow::Ok((name, cluster.push_image(name, &Image::hello(name)?)?)));
            anyhow::Ok((digests.into_iter().collect::<Result<_>>()?, cluster))
        };
        let (digests, cluster) = tokio::task::spawn_blocking(made).await??;
        let directory = TempDir::new()?;
        let daemon = crate::daemon::start(&cluster, directory.path())?;
        World::with(cluster, daemon, directory, "node-1", digests).await
    }

    async fn simulated() -> Result<World> {
        let made = || {
            let cluster = Cluster::up(&Options::default())?;
            // Its pods would stay pending there, for all that it knows.
            cluster.kill(Component::Scheduler)?;
            anyhow::Ok((cluster, workspace_binary("simnode", false)?))
        };
        let (cluster, simnode) = tokio::task::spawn_blocking(made).await??;
        let directory = TempDir::new()?;
        let log = File::create(directory.path().join("simnode.log"))?;
        let mut command = Command::new(simnode);
        command.args(["--nodes=1", "--node-images", "--heartbeat=10s"]).arg(format!("--missing-images={MISSING}"));
        command.env("KUBECONFIG", cluster.kubeconfig()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        install(&cluster)?;
        let simnode = command.kill_on_drop(true).spawn().context("cannot start simnode")?;
        let digests = [ONE, TWO].map(|name| (name, image_id(name))).into();
        World::with(cluster, simnode, directory, SIMULATED, digests).await
    }

    async fn with(
        cluster: Cluster,
        helper: Child,
        directory: TempDir,
        node: &'static str,
        digests: BTreeMap<&'static str, String>,
    ) -> Result<World> {
        let made = move || {
            install(&cluster)?;
            // The same in every life, because the CRDs hold it.
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            cluster.expose(port)?;
            anyhow::Ok((cluster, workspace_binary("berth-controller", false)?, port))
        };
        let (cluster, path, port) = tokio::task::spawn_blocking(made).await??;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A write that is tried again behind the proxy's back would be none of the controller's.
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let program = Program {
            path,
            arguments: arguments(port),
            environment: vec![("WEBHOOK_HOST".to_owned(), address::HOST.to_string())],
            directory: directory.path().to_owned(),
        };
        let world = World {
            program: program.path.clone(),
            controller: Controller::start(program, client.clone()),
            _helper: helper,
            cluster,
            client,
            node,
            digests,
            directory,
            undisturbed: Mutex::default(),
            struck: Mutex::default(),
            cases: AtomicUsize::new(0),
        };
        // The node's own NodeImage is no part of any case.
        objects::until(&world.client, "", kind::NODE_IMAGE, node, PATIENCE, |_| true)
            .await
            .with_context(|| world.logs())?;
        Ok(world)
    }

    /// Nobody runs containers here.
    pub(crate) fn is_simulated(&self) -> bool {
        self.node == SIMULATED
    }

    /// A name that no other case has.
    pub(crate) fn namespace(&self, scenario: Scenario) -> String {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}-{}", scenario.name().replace('_', "-"), std::process::id())
    }

    /// How the scenario goes without a fault; tried once.
    pub(crate) async fn undisturbed(&self, scenario: Scenario) -> Result<Undisturbed> {
        let known = self.undisturbed.lock().unwrap_or_else(PoisonError::into_inner).get(&scenario).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (ending, writes) = case::run(self, scenario, Fault::None, None).await?;
        let undisturbed = Undisturbed { writes, ending };
        self.undisturbed.lock().unwrap_or_else(PoisonError::into_inner).insert(scenario, undisturbed.clone());
        Ok(undisturbed)
    }

    /// What the programs say, for a failure.
    pub(crate) fn logs(&self) -> String {
        let tail = |file: &str| {
            let text = std::fs::read_to_string(self.directory.path().join(file)).unwrap_or_default();
            let mut tail: Vec<_> = text.lines().rev().take(10).map(str::to_owned).collect();
            tail.reverse();
            tail.join("\n")
        };
        let helpers = ["daemon.log", "simnode.log"].map(tail).join("\n");
        format!("{}--- daemon\n{helpers}", self.controller.log(3, 40))
    }
}

/// What the controller needs in the cluster: the kinds and the namespace of its certificates.
fn install(cluster: &Cluster) -> Result<()> {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/berth/files/crds").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &crds])?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &crds])?;
    let namespace = format!(r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{NAMESPACE}"}}}}"#);
    cluster.kubectl_with(&["apply", "-f", "-"], Some(&namespace)).map(|_| ())
}

fn arguments(webhook_port: u16) -> Vec<String> {
    let flags = [
        "--leader-elect=false",
        "--feature-gates=ImagePullJobGate=true",
        "--log-format=text",
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        "--grpc-port=0",
        &format!("--webhook-port={webhook_port}"),
    ];
    flags.map(str::to_owned).to_vec()
}
