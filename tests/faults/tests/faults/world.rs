//! The clusters that the runs share, each with the controller behind its proxy.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_api::kinds::KINDS;
use berth_cluster::programs::workspace_binary;
use berth_cluster::{Cluster, Component, Image, Options, address};
use berth_e2e::objects::{self, kind};
use berth_faults::{Controller, IN_DOUBT, Program};
use berth_simnode::kubelet::image_id;
use berth_simnode::nodes;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::group::WorldKind;

/// How long any step may take on a busy machine. The tests check no times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The images. Every CloneSet has pods of its own, so none of them meets the kubelet's restart
/// back-off.
pub(crate) const ONE: &str = "faults:one";
pub(crate) const TWO: &str = "faults:two";
/// An image that no registry has.
pub(crate) const MISSING: &str = "faults:missing";
pub(crate) const NAMESPACE: &str = "kruise-system";
/// The configuration of the pod webhook.
pub(crate) const MUTATING: &str = "kruise-mutating-webhook-configuration";
/// The configuration of the webhook that reviews deletions of pods.
const BUDGETS: &str = "kruise-budget-webhook-configuration";
const LEASE: &str = "kruise-manager";
/// The node that simnode simulates for all pods.
const SIMULATED: &str = "sim-0";
/// The nodes that simnode simulates, including those without pods.
pub(crate) const NODES: usize = 3;

/// The fields are in the order in which they must end.
pub(crate) struct World {
    pub(crate) controller: Controller,
    /// The daemon, or the simulated node.
    _helper: Child,
    pub(crate) cluster: Cluster,
    pub(crate) client: Client,
    /// There are two controllers.
    pub(crate) is_pair: bool,
    /// The only node.
    pub(crate) node: &'static str,
    /// The digests of the images by name.
    pub(crate) digests: BTreeMap<&'static str, String>,
    directory: TempDir,
    runs: AtomicUsize,
}

/// A free port, the same in every life, because the CRDs contain it. Between two lives nothing
/// listens on it: from 32768 on, the kernel could give it to a connection.
fn port_of_every_life() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() % 100 * 100;
    let mut ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed)).take(1_000);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports
        .find_map(|number| {
            u16::try_from(20_000 + first + u32::from(number))
                .ok()
                .filter(is_free)
        })
        .context("no port is free")
}

impl World {
    pub(crate) async fn new(kind: WorldKind) -> Result<World> {
        match kind {
            WorldKind::Real => World::real().await,
            WorldKind::Simulated | WorldKind::Pair | WorldKind::Ahead => {
                World::simulated(kind).await
            }
        }
    }

    async fn real() -> Result<World> {
        let made = || {
            let cluster = match env::var("BERTH_CLUSTER") {
                Ok(name) => Cluster::attach(&name)?,
                Err(_) => Cluster::up(&Options {
                    nodes: 1,
                    ..Options::default()
                })?,
            };
            let digests = [ONE, TWO]
                .map(|name| anyhow::Ok((name, cluster.push_image(name, &Image::hello(name)?)?)));
            anyhow::Ok((digests.into_iter().collect::<Result<_>>()?, cluster))
        };
        let (digests, cluster) = tokio::task::spawn_blocking(made).await??;
        let directory = TempDir::new()?;
        let daemon = crate::daemon::start(&cluster, directory.path())?;
        World::with(
            (cluster, daemon),
            directory,
            "node-1",
            digests,
            WorldKind::Real,
        )
        .await
    }

    async fn simulated(kind: WorldKind) -> Result<World> {
        let made = || {
            let cluster = Cluster::up(&Options::default())?;
            // Its pods would stay pending there, because it cannot see that the simulated nodes
            // take them.
            cluster.kill(Component::Scheduler)?;
            anyhow::Ok((cluster, workspace_binary("simnode", false)?))
        };
        let (cluster, simnode) = tokio::task::spawn_blocking(made).await??;
        let directory = TempDir::new()?;
        let log = File::create(directory.path().join("simnode.log"))?;
        let mut command = Command::new(simnode);
        command.args([
            "--nodes=1",
            &format!("--idle-nodes={}", NODES - 1),
            "--node-images",
            "--heartbeat=10s",
        ]);
        command.arg(format!("--missing-images={MISSING}"));
        command
            .env("KUBECONFIG", cluster.kubeconfig())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        install(&cluster)?;
        let simnode = command
            .kill_on_drop(true)
            .spawn()
            .context("cannot start simnode")?;
        let digests = [ONE, TWO].map(|name| (name, image_id(name))).into();
        World::with((cluster, simnode), directory, SIMULATED, digests, kind).await
    }

    async fn with(
        (cluster, helper): (Cluster, Child),
        directory: TempDir,
        node: &'static str,
        digests: BTreeMap<&'static str, String>,
        kind: WorldKind,
    ) -> Result<World> {
        let pair = kind == WorldKind::Pair;
        let made = move || {
            install(&cluster)?;
            let port = port_of_every_life()?;
            cluster.expose(port)?;
            anyhow::Ok((cluster, workspace_binary("berth-controller", false)?, port))
        };
        let (cluster, path, port) = tokio::task::spawn_blocking(made).await??;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A write that is tried again behind the proxy would not be the controller's.
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let program = |own: Vec<String>| Program {
            path: path.clone(),
            arguments: [
                arguments(kind),
                vec![format!("--write-timeout={IN_DOUBT:?}")],
                own,
            ]
            .concat(),
            environment: vec![(
                "WEBHOOK_HOST".to_owned(),
                format!("{}:{port}", address::HOST),
            )],
            directory: directory.path().to_owned(),
        };
        let first = format!("--webhook-port={port}");
        let programs = if pair {
            // Both replicas publish the first one's webhooks, so that their configurations agree.
            [first, "--webhook-port=0".to_owned()]
                .map(|port| program([vec![port], elected()].concat()))
                .into()
        } else {
            vec![program(vec![first, "--leader-elect=false".to_owned()])]
        };
        let world = World {
            controller: Controller::start(programs, &client),
            _helper: helper,
            cluster,
            client,
            is_pair: pair,
            node,
            digests,
            directory,
            runs: AtomicUsize::new(0),
        };
        world.settled().await.with_context(|| world.logs())?;
        Ok(world)
    }

    /// Waits for changes that are no part of any run: the nodes' own NodeImages, and webhooks,
    /// which change the kinds themselves.
    async fn settled(&self) -> Result<()> {
        let is_simulated = self.node == SIMULATED;
        let nodes = if is_simulated {
            (0..NODES).map(nodes::name).collect()
        } else {
            vec![self.node.to_owned()]
        };
        let deadline = Instant::now() + PATIENCE;
        while !self
            .controller
            .log(2, usize::MAX)
            .contains("conversion works")
        {
            ensure!(Instant::now() < deadline, "the webhooks are not there");
            sleep(Duration::from_millis(50)).await;
        }
        // The storage of a kind starts anew with each change of its definition, and refuses reads
        // for a moment.
        for of_ours in &KINDS {
            let kind = format!("{}/{}", of_ours.api_version(of_ours.stored), of_ours.kind);
            while objects::list(&self.client, "default", &kind, "")
                .await
                .is_err()
            {
                ensure!(Instant::now() < deadline, "{kind} cannot be read");
                sleep(Duration::from_millis(50)).await;
            }
        }
        for node in nodes {
            objects::until(&self.client, "", kind::NODE_IMAGE, &node, PATIENCE, |_| {
                true
            })
            .await?;
        }
        Ok(())
    }

    /// The leader by the lease, and the number of changes of the leader until then. Empty without a
    /// leader.
    pub(crate) async fn leader(&self) -> Result<String> {
        let lease = objects::get(
            &self.client,
            NAMESPACE,
            "coordination.k8s.io/v1/Lease",
            LEASE,
        )
        .await?;
        let holder = lease["spec"]["holderIdentity"]
            .as_str()
            .filter(|holder| !holder.is_empty());
        Ok(holder
            .map(|holder| {
                format!(
                    "{holder} since change {}",
                    lease["spec"]["leaseTransitions"]
                )
            })
            .unwrap_or_default())
    }

    /// A unique name.
    pub(crate) fn namespace(&self, scenario: &str) -> String {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        format!(
            "{}-{number}-{}",
            scenario.replace('_', "-"),
            std::process::id()
        )
    }

    /// The logs of the programs, for a failure.
    pub(crate) fn logs(&self) -> String {
        let tail = |file: &str| {
            let text =
                std::fs::read_to_string(self.directory.path().join(file)).unwrap_or_default();
            let mut tail: Vec<_> = text.lines().rev().take(10).map(str::to_owned).collect();
            tail.reverse();
            tail.join("\n")
        };
        let helpers = ["daemon.log", "simnode.log"].map(tail).join("\n");
        format!("{}--- daemon\n{helpers}", self.controller.log(3, 40))
    }
}

/// Installs what the controller needs in the cluster: the kinds, the namespace of its certificates,
/// and the webhook configurations that it writes.
fn install(cluster: &Cluster) -> Result<()> {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../charts/berth/files/crds")
        .display()
        .to_string();
    cluster.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &crds])?;
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "-f",
        &crds,
    ])?;
    let namespace = format!(
        r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{NAMESPACE}"}}}}"#
    );
    cluster.kubectl_with(&["apply", "-f", "-"], Some(&namespace))?;
    for (kind, name) in [
        ("MutatingWebhookConfiguration", MUTATING),
        ("ValidatingWebhookConfiguration", BUDGETS),
    ] {
        let configuration = format!(
            r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "{kind}", "metadata": {{"name": "{name}"}}}}"#
        );
        cluster.kubectl_with(&["apply", "-f", "-"], Some(&configuration))?;
    }
    Ok(())
}

const GATES: &str = "ImagePullJobGate=true,PodUnavailableBudgetUpdateGate=true,StatefulSetAutoResizePVCGate=true,\
                     StatefulSetStartOrdinal=true";
/// With this gate each workload whose images change has more writes.
const AHEAD: &str = "PreDownloadImageForInPlaceUpdate=true";
const ARGUMENTS: [&str; 5] = [
    "--pod-pinning=webhook",
    "--log-format=text",
    "--metrics-bind-address=127.0.0.1:0",
    "--health-probe-bind-address=127.0.0.1:0",
    "--grpc-port=0",
];

fn arguments(kind: WorldKind) -> Vec<String> {
    let gates = if kind == WorldKind::Ahead {
        format!("{GATES},{AHEAD}")
    } else {
        GATES.to_owned()
    };
    let mut all = vec![format!("--feature-gates={gates}")];
    all.extend(ARGUMENTS.map(str::to_owned));
    all
}

/// Arguments with a lease that expires soon.
fn elected() -> Vec<String> {
    let flags = [
        "--leader-elect=true",
        "--lease-duration=2s",
        "--renew-deadline=1500ms",
        "--retry-period=500ms",
    ];
    flags.map(str::to_owned).to_vec()
}
