//! Images that daemons pull with a Secret, and kubelets that verify the credentials of each pod.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use berth_cluster::versions::Kubernetes;
use berth_cluster::{Cluster, Component, Diversion, Place, address};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use crate::pulls;
use crate::stuck::is_told;
use crate::trust::{PULL_SECRET, create_pull_secret};
use crate::world::{Case, ensure_in_place, two_at_a_time};

/// The node whose registry requires credentials.
const NODE: u8 = 2;
/// The password of [`HTPASSWD`].
const PASSWORD: &str = "secret";
/// The registry's entry for the user `robot`.
const HTPASSWD: &str = "robot:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
const KUBELET_CONFIG: &str = "/etc/kubernetes/kubelet.json";
/// Older kubelets refuse to start with a policy for the verification of credentials.
const VERIFIES_SINCE: Kubernetes = Kubernetes::V1_35;

/// The cluster's registry as the node sees it while this value lives: it requires a password.
struct PrivateRegistry {
    process: Child,
    _diversion: Diversion,
}

impl PrivateRegistry {
    fn start(cluster: &Arc<Cluster>) -> Result<PrivateRegistry> {
        let config = cluster.kubeconfig().with_file_name("registry.yaml");
        let (private, passwords) = (
            config.with_file_name("private.yaml"),
            config.with_file_name("htpasswd"),
        );
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let public = format!("{}:{}", address::CONTROL_PLANE, address::REGISTRY_PORT);
        let text = fs::read_to_string(config)?
            .replace(&public, &format!("{}:{port}", Ipv4Addr::LOCALHOST));
        let auth = format!(
            "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
            passwords.display()
        );
        fs::write(&private, text + &auth)?;
        fs::write(passwords, HTPASSWD)?;
        let mut command = Command::new("docker-registry");
        command
            .arg("serve")
            .arg(private)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command.spawn().context("cannot start a registry")?;
        let diverted = cluster
            .expose(port)
            .and_then(|_| cluster.divert_registry(NODE, port));
        match diverted {
            Ok(_diversion) => {
                while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
                    ensure!(
                        process.try_wait()?.is_none(),
                        "the registry with a password ended"
                    );
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                Ok(PrivateRegistry {
                    process,
                    _diversion,
                })
            }
            Err(error) => {
                let _ = process.kill();
                Err(error)
            }
        }
    }
}

impl Drop for PrivateRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// By default every pod of the node may use images that a daemon pulled with a Secret. With
/// `AlwaysVerify` each pod needs one.
pub(crate) async fn pulled_image_is_open_unless_verified(case: &Case) -> Result<()> {
    let cluster = case.cluster()?;
    create_pull_secret(case, PASSWORD).await?;
    let starting = cluster.clone();
    let _registry = case
        .blocking(move |_| PrivateRegistry::start(&starting))
        .await?;
    let one = image(case, "v1").await?;
    let refused = json!({"pullPolicy": {"backoffLimit": 0}, "selector": {"names": [Place::Node(NODE).to_string()]}});
    case.create(&pulls::job("no-secret", &one, refused)).await?;
    ensure!(
        pulls::ended(case, "no-secret").await?["failed"] == 1,
        "the registry asks for no credentials"
    );
    pulled(case, "one", &one).await?;
    case.create(&set("open", &one, json!({}))).await?;
    case.done("open").await?;

    if cluster.versions().kubernetes < VERIFIES_SINCE {
        return Ok(());
    }
    let before = case
        .blocking(move |_| cluster.exec(Place::Node(NODE), &["cat", KUBELET_CONFIG]))
        .await?;
    let mut config: Value = serde_json::from_str(&before)?;
    config["imagePullCredentialsVerificationPolicy"] = "AlwaysVerify".into();
    let tested = async {
        configure(case, config.to_string()).await?;
        with_the_secret(case, &one).await?;
        without(case, &one).await?;
        never_pulled(case).await
    };
    pulls::restored(tested, configure(case, before)).await
}

/// An image that no kubelet has pulled under another name. For the same content, the kubelet
/// verifies each name.
async fn image(case: &Case, tag: &str) -> Result<String> {
    let [image] = case
        .images(&format!("{}:{tag}", case.namespace), [tag])
        .await?;
    Ok(image)
}

/// Gives the node's kubelet this configuration.
async fn configure(case: &Case, config: String) -> Result<()> {
    let cluster = case.cluster()?;
    case.blocking(move |_| {
        let script = format!("cat >{KUBELET_CONFIG} <<'JSON'\n{config}\nJSON");
        cluster.exec(Place::Node(NODE), &["sh", "-ec", &script])?;
        cluster.restart(Component::Kubelet(NODE))
    })
    .await
}

/// Has the node's daemon pull with the Secret.
async fn pulled(case: &Case, name: &str, image: &str) -> Result<()> {
    let more = json!({"pullSecrets": [PULL_SECRET], "selector": {"names": [Place::Node(NODE).to_string()]}});
    case.create(&pulls::job(name, image, more)).await?;
    let status = pulls::ended(case, name).await?;
    ensure!(status["succeeded"] == 1, "{name}: {status}");
    Ok(())
}

/// A CloneSet of one pod on the node. `pod` is put into its template's spec.
fn set(name: &str, image: &str, pod: Value) -> Value {
    let mut set = objects::clone_set(name, 1, image, &two_at_a_time(0));
    let spec = &mut set["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": Place::Node(NODE).to_string()});
    for (field, value) in pod.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    set
}

/// The part of a pod's spec that gives it the Secret.
fn secrets() -> Value {
    json!({"imagePullSecrets": [{"name": PULL_SECRET}]})
}

async fn with_the_secret(case: &Case, one: &str) -> Result<()> {
    case.create(&set("web", one, secrets())).await?;
    case.done("web").await?;
    let before = case.pods("web").await?;
    let two = image(case, "v2").await?;
    pulled(case, "two", &two).await?;
    case.set_image("web", &two).await?;
    case.done("web").await?;
    ensure_in_place(&before, &case.pods("web").await?, 1)
}

async fn without(case: &Case, one: &str) -> Result<()> {
    case.create(&set("stranger", one, json!({}))).await?;
    let remedy = "add a Secret that opens the registry to spec.template.spec.imagePullSecrets";
    is_told(
        case,
        "stranger",
        "ImageUnavailable",
        &["pod stranger-", one, remedy],
    )
    .await?;
    case.patch(
        kind::CLONE_SET,
        "stranger",
        json!({"spec": {"template": {"spec": secrets()}}}),
    )
    .await?;
    case.done("stranger").await.map(drop)
}

/// The kubelet can verify credentials only by a pull.
async fn never_pulled(case: &Case) -> Result<()> {
    let three = image(case, "v3").await?;
    pulled(case, "three", &three).await?;
    let mut never = set("never", &three, secrets());
    never["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Never".into();
    case.create(&never).await?;
    let remedy = "set spec.template.spec.containers[main].imagePullPolicy to IfNotPresent";
    is_told(
        case,
        "never",
        "ImageUnavailable",
        &["is not present", remedy],
    )
    .await?;
    never["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent".into();
    let containers = &never["spec"]["template"]["spec"]["containers"];
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    case.patch(kind::CLONE_SET, "never", patch).await?;
    case.done("never").await.map(drop)
}
