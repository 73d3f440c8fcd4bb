//! A control plane with the chart installed, and replicas of the webhooks as its pods.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::Programs;
use berth_cluster::{Cluster, Options, Place, Versions, address};
use berth_webhook::{Config, Handle, PodIdentity, Readiness};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing_subscriber::filter::LevelFilter;

pub(crate) const NAMESPACE: &str = "kruise-system";
pub(crate) const SERVICE: &str = "kruise-webhook-service";
/// The node that all replicas are on.
const NODE: &str = "stage";
const KUBECONFIG: &str = "kubeconfig";
pub(crate) const SECRET: &str = "kruise-webhook-certs";
/// The longest that any step may take before a test gives up. No test asserts it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    /// Contains the administrator's kubeconfig with the apiserver's address inside the cluster, and
    /// kubectl's cache.
    directory: TempDir,
}

impl Stage {
    /// A control plane with the chart in it. It has no nodes: the chart's own pods stay pending,
    /// and the test's replicas take their place.
    pub(crate) fn with_chart() -> Result<Self> {
        Self::with_values(REGISTRY)
    }

    /// A control plane with the chart and more values, separated by commas.
    pub(crate) fn with_values(values: &str) -> Result<Self> {
        let stage = Self::bare()?;
        stage.helm(&[
            "install",
            "berth",
            CHART,
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            "--set",
            values,
        ])?;
        stage.account(NAMESPACE)?;
        Ok(stage)
    }

    /// The stage of the tests that leave the chart's objects unchanged: each works in namespaces
    /// of its own. The stage ends when the last test returns its reference.
    pub(crate) fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Stage>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock();
        if let Some(stage) = shared.upgrade() {
            return Ok(stage);
        }
        let stage = Arc::new(Self::with_values(&format!("{REGISTRY},clusters.name=red"))?);
        *shared = Arc::downgrade(&stage);
        Ok(stage)
    }

    /// Upgrades the chart to these values and the defaults.
    pub(crate) fn upgrade(&self, values: &[&str]) -> Result<()> {
        let mut arguments = vec!["upgrade", "berth", CHART, "--namespace", NAMESPACE];
        let values = [&[REGISTRY], values].concat();
        arguments.extend(values.iter().flat_map(|value| ["--set", *value]));
        self.helm(&arguments).map(drop)
    }

    /// Waits for a namespace's service account, because the apiserver refuses pods without one.
    pub(crate) fn account(&self, namespace: &str) -> Result<()> {
        let account = ["wait", "--for=create", "serviceaccount/default"];
        let options = ["--timeout=120s", "--namespace", namespace];
        self.kubectl(&[account, options].concat(), None).map(drop)
    }

    /// Creates a namespace in which pods can be created.
    pub(crate) fn namespace(&self, name: &str) -> Result<()> {
        self.kubectl(&["create", "namespace", name], None)?;
        self.account(name)
    }

    pub(crate) fn bare() -> Result<Self> {
        let _ = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::WARN)
            .with_test_writer()
            .try_init();
        let cluster = Cluster::up(&Options::default())?;
        let mut config = Kubeconfig::read_from(cluster.kubeconfig())?;
        for entry in config
            .clusters
            .iter_mut()
            .filter_map(|entry| entry.cluster.as_mut())
        {
            entry.server = Some(format!(
                "https://{}:{}",
                address::CONTROL_PLANE,
                address::APISERVER_PORT
            ));
        }
        let directory = TempDir::new()?;
        std::fs::write(
            directory.path().join(KUBECONFIG),
            serde_json::to_vec(&config)?,
        )?;
        Ok(Self { cluster, directory })
    }

    pub(crate) fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.program("helm", arguments, None)
    }

    pub(crate) fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        self.program("kubectl", arguments, input)
    }

    /// Runs a program inside the cluster's network, even if the caller is outside.
    fn program(&self, name: &str, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let program = self.cluster.programs().path(name);
        let mut command = self.cluster.command(Place::ControlPlane, program)?;
        command
            .env("KUBECONFIG", self.directory.path().join(KUBECONFIG))
            .env("KUBECACHEDIR", self.directory.path().join("cache"));
        output(command, name, arguments, input)
    }

    /// Deletes the pods of all replicas, and waits for the end of their early endpoints.
    pub(crate) fn remove_replicas(&self) -> Result<()> {
        let on_node = format!("--field-selector=spec.nodeName={NODE}");
        let pods = ["delete", "pods", &on_node, "--grace-period=0", "--force"];
        self.kubectl(&[&pods[..], &["--namespace", NAMESPACE]].concat(), None)?;
        let slices = ["wait", "--for=delete", "endpointslices", "--timeout=120s"];
        let early = ["-l", EARLY_ENDPOINTS, "--namespace", NAMESPACE];
        self.kubectl(&[&slices[..], &early].concat(), None)?;
        Ok(())
    }

    /// Runs the work in a place where the apiserver can reach it.
    pub(crate) fn run<T: Send>(
        &self,
        work: impl AsyncFnOnce(Client) -> Result<T> + Send,
    ) -> Result<T> {
        self.cluster.in_network(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async { work(self.client(None).await?).await })
        })?
    }

    /// A client inside the cluster's network: the administrator, or the bearer of a token.
    pub(crate) async fn client(&self, token: Option<String>) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.directory.path().join(KUBECONFIG))?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        if let Some(token) = token {
            config.auth_info = AuthInfo {
                token: Some(SecretString::from(token)),
                ..AuthInfo::default()
            };
        }
        Ok(Client::try_from(config)?)
    }

    /// A client with the rights that the chart gives to the controller.
    pub(crate) async fn manager(&self) -> Result<Client> {
        self.client(Some(self.token("kruise-manager", &[])?)).await
    }

    /// A token of a service account of the chart.
    pub(crate) fn token(&self, account: &str, more: &[&str]) -> Result<String> {
        let arguments = ["create", "token", account, "--namespace", NAMESPACE];
        Ok(self
            .kubectl(&[&arguments, more].concat(), None)?
            .trim()
            .to_owned())
    }
}

pub(crate) const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/berth");
pub(crate) const REGISTRY: &str = "image.registry=registry.test/berth";

/// Selects the EndpointSlices of replicas that Kubernetes does not call ready yet.
pub(crate) const EARLY_ENDPOINTS: &str = "endpointslice.kubernetes.io/managed-by=berth-controller";

/// Runs helm without a cluster.
pub(crate) fn helm(arguments: &[&str]) -> Result<String> {
    let programs = Programs::ready(Versions::asked()?)?;
    output(Command::new(programs.path("helm")), "helm", arguments, None)
}

/// The standard output of a program; its standard error is the error.
fn output(
    mut command: Command,
    name: &str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String> {
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    child
        .stdin
        .take()
        .context("no standard input")?
        .write_all(input.unwrap_or_default().as_bytes())?;
    let output = child.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} {arguments:?}: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A replica, and the part of a kubelet that it needs: its node lives, and its pod is ready when
/// the replica is.
pub(crate) struct Replica {
    pub(crate) handle: Handle,
    shutdown: oneshot::Sender<()>,
    ready: oneshot::Receiver<()>,
    kubelet: JoinHandle<Result<()>>,
}

/// How long certificates live.
#[derive(Clone, Copy)]
pub(crate) struct Validity {
    pub(crate) cert: Duration,
    pub(crate) ca: Duration,
}

/// Long enough for nothing to be rotated.
pub(crate) const LONG: Validity = Validity {
    cert: Duration::from_secs(86_400),
    ca: Duration::from_secs(864_000),
};

impl Replica {
    /// Starts a replica with the rights that the chart gives to the controller.
    pub(crate) async fn start(
        stage: &Stage,
        admin: &Client,
        port: u16,
        validity: Validity,
    ) -> Result<Self> {
        Self::start_with(stage, admin, config(port, validity, None)).await
    }

    /// Starts a replica with settings of its own; its pod is made here, and its token is bound to
    /// that pod, as by a kubelet.
    pub(crate) async fn start_with(stage: &Stage, admin: &Client, config: Config) -> Result<Self> {
        let port = config.bind.port();
        beat(admin).await?;
        let pods: Api<Pod> = Api::namespaced(admin.clone(), NAMESPACE);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": format!("replica-{port}"),
                "labels": {"app.kubernetes.io/name": "berth", "app.kubernetes.io/component": "controller"},
            },
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "manager", "image": "none", "ports": [{"name": "webhook", "containerPort": port}]}],
                "automountServiceAccountToken": false,
                "serviceAccountName": "kruise-manager",
            },
        }))?;
        let pod = pods.create(&PostParams::default(), &pod).await?;
        let bound = [
            "--bound-object-kind=Pod",
            &format!("--bound-object-name={}", pod.name_any()),
        ];
        let manager = stage
            .client(Some(stage.token("kruise-manager", &bound)?))
            .await?;
        let ip = address::CONTROL_PLANE;
        let identity = PodIdentity {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            ip: ip.into(),
        };
        let (shutdown, stop) = oneshot::channel();
        let stop = async move { drop(stop.await) };
        let handle = berth_webhook::run(
            Config {
                pod: Some(identity),
                ..config
            },
            manager,
            stop,
        )
        .await?;
        let (done, ready) = oneshot::channel();
        let kubelet = tokio::spawn(kubelet(
            admin.clone(),
            pod.name_any(),
            handle.readiness(),
            done,
        ));
        Ok(Self {
            handle,
            shutdown,
            ready,
            kubelet,
        })
    }

    /// Waits until it is ready and its pod says so.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let readiness = self.handle.readiness();
        let waited = tokio::time::timeout(PATIENCE, &mut self.ready).await;
        Ok(waited.with_context(|| format!("never ready: {:?}", readiness.check()))??)
    }

    /// Ends it as a kubelet would, and waits until it has ended.
    pub(crate) async fn end(self) -> Result<()> {
        let _ = self.shutdown.send(());
        self.kubelet.abort();
        Ok(self.handle.join().await?)
    }
}

/// The work of a kubelet for a replica's pod.
async fn kubelet(
    admin: Client,
    pod: String,
    readiness: Readiness,
    done: oneshot::Sender<()>,
) -> Result<()> {
    while readiness.check().is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    set_ready(
        &Api::namespaced(admin.clone(), NAMESPACE),
        &pod,
        address::CONTROL_PLANE,
    )
    .await?;
    let _ = done.send(());
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        beat(&admin).await?;
    }
}

/// Sends a heartbeat for the node of all replicas: without it Kubernetes would call its pods
/// unready.
async fn beat(admin: &Client) -> Result<()> {
    let nodes: Api<Node> = Api::all(admin.clone());
    if nodes.get_opt(NODE).await?.is_none() {
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": NODE}, "spec": {"unschedulable": true}}),
        )?;
        match nodes.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created?),
        }
    }
    let ready =
        json!({"type": "Ready", "status": "True", "lastHeartbeatTime": jiff::Timestamp::now()});
    let status = json!({"status": {"conditions": [ready]}});
    nodes
        .patch_status(NODE, &PatchParams::default(), &Patch::Strategic(status))
        .await?;
    Ok(())
}

pub(crate) fn config(port: u16, validity: Validity, pod: Option<PodIdentity>) -> Config {
    Config {
        closed: Default::default(),
        object_max_bytes: 256 << 10,
        token: None,
        namespace: NAMESPACE.to_owned(),
        service: SERVICE.to_owned(),
        extra_services: vec!["kruise-manager-grpc".to_owned()],
        secret: SECRET.to_owned(),
        bind: SocketAddr::from((address::CONTROL_PLANE, port)),
        host: None,
        host_port: None,
        cert_validity: validity.cert,
        validity: berth_webhook::Validity::default(),
        reviews: berth_webhook::ReviewMetrics::default(),
        refused_deletions: berth_webhook::deletions::RefusedDeletions::default(),
        ca_validity: validity.ca,
        validating: true,
        pods: false,
        records: None,
        budgets: None,
        injector: None,
        pod,
        drain: Duration::from_millis(500),
    }
}

async fn set_ready(pods: &Api<Pod>, name: &str, ip: Ipv4Addr) -> Result<()> {
    let status = json!({"status": {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(status))
        .await?;
    Ok(())
}

/// Tries until it works; after too long it returns the last error.
pub(crate) async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if tokio::time::Instant::now() > deadline => {
                return Err(error.context(format!("not yet: {what}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// NodeImages in a version.
pub(crate) fn node_images(client: &Client, version: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("apps.kruise.io", version, "NodeImage");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk))
}

/// A NodeImage that pulls one tag.
pub(crate) fn node_image(version: &str, name: &str, tag: &str) -> DynamicObject {
    let gvk = GroupVersionKind::gvk("apps.kruise.io", version, "NodeImage");
    let tag = json!({"tag": tag, "createdAt": "2026-01-01T00:00:00Z", "version": 1});
    let data = json!({"spec": {"images": {"nginx": {"tags": [tag]}}}});
    let mut object = DynamicObject::new(name, &ApiResource::from_gvk(&gvk)).data(data);
    object.metadata.labels = Some(
        [(
            "apps.kruise.io/fake-nodeimage".to_owned(),
            "true".to_owned(),
        )]
        .into(),
    );
    object
}

/// The tags of a NodeImage.
pub(crate) fn tag_of(object: &DynamicObject) -> Option<&str> {
    object
        .data
        .pointer("/spec/images/nginx/tags/0/tag")
        .and_then(Value::as_str)
}
