//! The stage of every subject: etcd and kube-apiserver alone, with simulated nodes. It is fresh for
//! each subject, so that no remains of one disturb the next.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_cluster::{Cluster, Component, Options as ClusterOptions, address};
use berth_e2e::objects;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::audit::{Log, Requests};
use super::process::{self, Used};
use super::record::Record;

/// The user whose requests the audit log is read for. Other users' writes do not count.
pub(crate) const USER: &str = "bench:subject";
/// The namespace of the pods.
pub(crate) const NAMESPACE: &str = "bench";
/// The namespace of a controller's lease and certificates.
pub(crate) const SYSTEM: &str = "kruise-system";
/// How long any step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1200);

/// A control plane with simulated nodes.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    /// An administrator, whose requests are not counted.
    pub(crate) client: Client,
    /// The kubeconfig of [`USER`].
    pub(crate) kubeconfig: PathBuf,
    /// The subject's memory over time.
    pub(crate) record: Arc<Record>,
    log: Log,
    simnode: Child,
    apiserver: u32,
    etcd: u32,
}

/// The extras of a stage beside etcd, kube-apiserver and simulated nodes.
#[derive(Debug, Clone, Copy)]
struct Extras {
    /// kube-controller-manager.
    controllers: bool,
    /// A log of requests.
    audit: bool,
}

/// CPU seconds of the control plane so far, and the subject's usage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) subject: Used,
    pub(crate) apiserver: f64,
    pub(crate) etcd: f64,
    pub(crate) simnode: f64,
}

impl Stage {
    /// Makes a stage, with these manifests. The programs' output goes into files in `logs`.
    pub(crate) async fn up(
        simnode: &Path,
        nodes: usize,
        manifests: &Path,
        logs: &Path,
    ) -> Result<Self> {
        Self::made(
            simnode,
            nodes,
            manifests,
            logs,
            Extras {
                controllers: false,
                audit: true,
            },
        )
        .await
    }

    /// The same without counting requests: the apiserver has no log of them to write.
    pub(crate) async fn unaudited(
        simnode: &Path,
        nodes: usize,
        manifests: &Path,
        logs: &Path,
    ) -> Result<Self> {
        Self::made(
            simnode,
            nodes,
            manifests,
            logs,
            Extras {
                controllers: false,
                audit: false,
            },
        )
        .await
    }

    /// The same, with kube-controller-manager: it collects garbage, and the nodes renew their
    /// leases for it.
    pub(crate) async fn with_controllers(
        simnode: &Path,
        nodes: usize,
        manifests: &Path,
        logs: &Path,
    ) -> Result<Self> {
        Self::made(
            simnode,
            nodes,
            manifests,
            logs,
            Extras {
                controllers: true,
                audit: true,
            },
        )
        .await
    }

    async fn made(
        simnode: &Path,
        nodes: usize,
        manifests: &Path,
        logs: &Path,
        extras: Extras,
    ) -> Result<Self> {
        let Extras { controllers, audit } = extras;
        let manifests = manifests.display().to_string();
        let made = move || {
            let cluster = Cluster::up(&ClusterOptions {
                audit,
                ..ClusterOptions::default()
            })?;
            // Their work and CPU must not count for the subject.
            cluster.kill(Component::Scheduler)?;
            if !controllers {
                cluster.kill(Component::ControllerManager)?;
            }
            for namespace in [NAMESPACE, SYSTEM] {
                cluster.kubectl(&["create", "namespace", namespace])?;
            }
            cluster.kubectl(&[
                "apply",
                "--server-side",
                "--force-conflicts",
                "-f",
                &manifests,
            ])?;
            cluster.kubectl(&[
                "wait",
                "--for=condition=Established",
                "--timeout=120s",
                "crd",
                "--all",
            ])?;
            anyhow::Ok(cluster)
        };
        let cluster = tokio::task::spawn_blocking(made).await??;
        let config = Kubeconfig::read_from(cluster.kubeconfig())?;
        let mut config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        // The transport of controllers: small writes are sent at once.
        let client =
            berth_runtime::client::connect(config, berth_runtime::metrics::Metrics::new(|_| {}))?;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        if !controllers {
            objects::create(&client, NAMESPACE, &account).await?;
        }
        let kubeconfig = subject_kubeconfig(&cluster.kubeconfig())?;
        let output = File::create(logs.join("simnode.log"))?;
        let mut command = Command::new(simnode);
        command.args(["--node-images", "--nodes", &nodes.to_string()]);
        command
            .args(controllers.then_some("--heartbeat=10s"))
            .env("KUBECONFIG", cluster.kubeconfig());
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let simnode = command
            .kill_on_drop(true)
            .spawn()
            .context("cannot start simnode")?;
        let process = |component| {
            cluster
                .process_id(component)
                .with_context(|| format!("{component} does not run"))
        };
        Ok(Self {
            apiserver: process(Component::Apiserver)?,
            etcd: process(Component::Etcd)?,
            log: Log::at(&cluster.audit_log()),
            client,
            kubeconfig,
            record: Record::begin(),
            simnode,
            cluster,
        })
    }

    /// The usage so far; that of the subject, if it is a process.
    pub(crate) fn look(&self, subject: Option<u32>) -> Result<Look> {
        let cpu = |pid| process::used(pid).map(|used| used.cpu);
        Ok(Look {
            subject: subject.map(process::used).transpose()?.unwrap_or_default(),
            apiserver: cpu(self.apiserver)?,
            etcd: cpu(self.etcd)?,
            simnode: cpu(self.simnode.id().context("simnode has ended")?)?,
        })
    }

    /// The subject's requests since the last call.
    pub(crate) fn requests(&mut self) -> Result<Requests> {
        self.log.since(USER)
    }

    /// The kubeconfig of [`USER`] for a program that runs beside the apiserver.
    pub(crate) fn kubeconfig_inside(&self) -> Result<PathBuf> {
        let mut config: Value = serde_json::from_slice(&std::fs::read(&self.kubeconfig)?)?;
        let server = format!(
            "https://{}:{}",
            address::CONTROL_PLANE,
            address::APISERVER_PORT
        );
        config["clusters"][0]["cluster"]["server"] = json!(server);
        let file = self.kubeconfig.with_file_name("subject-inside.kubeconfig");
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// The number of pods.
    pub(crate) async fn pods(&self) -> Result<usize> {
        self.count(&format!("/api/v1/namespaces/{NAMESPACE}/pods"))
            .await
    }

    /// The number of objects at a path.
    pub(crate) async fn count(&self, path: &str) -> Result<usize> {
        // From the apiserver's cache, with a limit of one object: the answer has the number of the
        // others.
        let request = http::Request::get(format!("{path}?limit=1")).body(Vec::new())?;
        let list: Value = self.client.request(request).await?;
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(list["items"].as_array().map_or(0, Vec::len) + usize::try_from(rest)?)
    }
}

/// An administrator's kubeconfig that acts as [`USER`].
fn subject_kubeconfig(admin: &Path) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_slice(&std::fs::read(admin)?)?;
    config["users"][0]["user"]["as"] = json!(USER);
    config["users"][0]["user"]["as-groups"] = json!(["system:masters"]);
    let file = admin.with_file_name("subject.kubeconfig");
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

/// A free port.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
