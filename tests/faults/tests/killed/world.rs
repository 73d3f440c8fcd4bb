//! The cluster that all cases share, with the controller behind its proxy.

use std::collections::BTreeMap;
use std::env;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use berth_cluster::programs::workspace_binary;
use berth_cluster::{Cluster, Image, Options, address};
use berth_e2e::objects::{self, kind};
use berth_faults::{Controller, Fault, Program};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::process::Child;

use crate::case;
use crate::ending::Ending;
use crate::scenario::Scenario;

/// How long anything may take on a busy machine. Nothing is asserted about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The images. Every CloneSet has pods of its own, so none of them meets the kubelet's restart back-off.
pub(crate) const ONE: &str = "faults:one";
pub(crate) const TWO: &str = "faults:two";
/// Of so many writes one is tried, so that `make test` has time for it. That the controller dies at each of them in turn
/// takes one run only, and is always tried.
const STRIDE: usize = 16;
const NAMESPACE: &str = "kruise-system";

/// How a scenario goes without a fault.
#[derive(Debug, Clone)]
pub(crate) struct Undisturbed {
    pub(crate) writes: usize,
    pub(crate) ending: Ending,
}

/// In the order in which they must end.
pub(crate) struct World {
    pub(crate) controller: Controller,
    _daemon: Child,
    pub(crate) cluster: Cluster,
    /// The controller's binary.
    pub(crate) program: PathBuf,
    pub(crate) client: Client,
    /// The digests of the images by name.
    pub(crate) digests: BTreeMap<&'static str, String>,
    pub(crate) stride: usize,
    directory: TempDir,
    undisturbed: Mutex<BTreeMap<Scenario, Undisturbed>>,
    cases: AtomicUsize,
}

impl World {
    pub(crate) async fn up() -> Result<World> {
        let stride = match env::var("BERTH_FAULTS_STRIDE") {
            Ok(stride) => {
                stride.parse().ok().filter(|stride| *stride > 0).context("BERTH_FAULTS_STRIDE is no number above 0")?
            }
            Err(_) => STRIDE,
        };
        let made = || {
            let cluster = match env::var("BERTH_CLUSTER") {
                Ok(name) => Cluster::attach(&name)?,
                Err(_) => Cluster::up(&Options { nodes: 1, ..Options::default() })?,
            };
            install(&cluster)?;
            // The same in every life, because the CRDs hold it.
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            cluster.expose(port)?;
            let digests = [ONE, TWO].map(|name| anyhow::Ok((name, cluster.push_image(name, &Image::hello(name)?)?)));
            let digests = digests.into_iter().collect::<Result<_>>()?;
            anyhow::Ok((cluster, digests, workspace_binary("berth-controller", false)?, port))
        };
        let (cluster, digests, path, port) = tokio::task::spawn_blocking(made).await??;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A write that is tried again behind the proxy's back would be none of the controller's.
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let directory = TempDir::new()?;
        let daemon = crate::daemon::start(&cluster, directory.path())?;
        let program = Program {
            path,
            arguments: arguments(port),
            environment: vec![("WEBHOOK_HOST".to_owned(), address::HOST.to_string())],
            directory: directory.path().to_owned(),
        };
        let world = World {
            program: program.path.clone(),
            controller: Controller::start(program, client.clone()),
            _daemon: daemon,
            cluster,
            client,
            digests,
            stride,
            directory,
            undisturbed: Mutex::default(),
            cases: AtomicUsize::new(0),
        };
        // The node's own NodeImage is no part of any case.
        objects::until(&world.client, "", kind::NODE_IMAGE, "node-1", PATIENCE, |_| true)
            .await
            .with_context(|| world.logs())?;
        Ok(world)
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
        let daemon = std::fs::read_to_string(self.directory.path().join("daemon.log")).unwrap_or_default();
        let mut tail: Vec<_> = daemon.lines().rev().take(10).collect();
        tail.reverse();
        format!("{}--- daemon\n{}", self.controller.log(3, 40), tail.join("\n"))
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
