//! Pull secrets from end to end: the daemon's client, TLS, a real apiserver's tokens, reviews and
//! secrets. Needs root, as the cluster does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::sync::Arc;

use berth_cluster::{Cluster, Options};
use berth_controller::secrets::{self, PullSecretsService};
use berth_daemon::pulls::pull_secrets::PullSecrets;
use berth_daemon::tasks::Key;
use berth_grpc::TOKEN_AUDIENCE;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const NAME: &str = "kruise-manager-grpc.kruise-system.svc";

#[tokio::test]
async fn daemon_gets_only_secrets_of_its_own_pulls() {
    let stage = Stage::up().await;
    let (one, two) = (stage.daemon("node-1"), stage.daemon("node-2"));

    let answer = stage
        .ask(&one, "registry.example/team/app", "1")
        .await
        .unwrap();
    let found: Vec<(&str, &str)> = answer
        .credentials
        .iter()
        .map(|c| (c.registry.as_str(), c.password.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("registry.example/team", "for-one"),
            ("registry.example", "for-all")
        ]
    );
    assert_eq!(
        answer.problems,
        ["pull secret default/missing does not exist"]
    );
    let answer = stage
        .ask(&two, "registry.example/team/app", "1")
        .await
        .unwrap();
    let found: Vec<&str> = answer
        .credentials
        .iter()
        .map(|c| c.password.as_str())
        .collect();
    assert_eq!(
        found,
        ["for-all"],
        "the other node's NodeImage names one secret only"
    );
    let answer = stage.ask(&one, "plain", "1").await.unwrap();
    assert!(answer.credentials.is_empty() && answer.problems.is_empty());

    let table = [
        (
            "an image that another node pulls",
            stage.ask(&two, "registry.example/only-one", "1").await,
            "PermissionDenied",
        ),
        (
            "another tag",
            stage.ask(&one, "registry.example/team/app", "2").await,
            "NodeImage node-1 asks for no such pull",
        ),
        (
            "a node without a NodeImage",
            stage.ask(&stage.daemon("node-3"), "plain", "1").await,
            "NodeImage node-3 asks for no such pull",
        ),
        (
            "another account on the node",
            stage
                .ask(
                    &stage.token("default", "node-1", TOKEN_AUDIENCE),
                    "plain",
                    "1",
                )
                .await,
            "which only system:serviceaccount:kruise-system:kruise-daemon may",
        ),
        (
            "the apiserver's audience",
            stage
                .ask(
                    &stage.token("kruise-daemon", "node-1", "https://kubernetes.default.svc"),
                    "plain",
                    "1",
                )
                .await,
            "Unauthenticated",
        ),
        (
            "a token of no node",
            stage.ask(&stage.unbound(), "plain", "1").await,
            "has no claim",
        ),
        (
            "no token at all",
            stage.ask("x.y.z", "plain", "1").await,
            "Unauthenticated",
        ),
    ];
    for (what, answer, says) in table {
        let why = answer.expect_err(what);
        assert!(why.contains(says), "{what}: {why}");
    }
    // The server must prove itself, too.
    let stranger = stage.client(&one, "another.name");
    assert!(
        stranger
            .get(&key("plain", "1"))
            .await
            .unwrap_err()
            .contains("cannot be reached")
    );

    stage.end.send(()).unwrap();
    stage.server.await.unwrap();
    assert!(
        PullSecrets { ..stage.client }
            .get(&key("plain", "1"))
            .await
            .unwrap_err()
            .contains("cannot be reached")
    );
}

struct Stage {
    cluster: Cluster,
    directory: TempDir,
    client: PullSecrets,
    server: tokio::task::JoinHandle<()>,
    end: oneshot::Sender<()>,
}

impl Stage {
    /// A control plane with two nodes on paper, NodeImages and secrets, and the service in this
    /// process.
    async fn up() -> Stage {
        let cluster = Cluster::up(&Options::default()).unwrap();
        for mut definition in berth_api::kinds::crd::definitions().unwrap() {
            // Without the webhook there is no conversion.
            definition["spec"]["conversion"] = json!({"strategy": "None"});
            cluster
                .kubectl_with(&["create", "-f", "-"], Some(&definition.to_string()))
                .unwrap();
        }
        cluster
            .kubectl(&[
                "wait",
                "--for=condition=Established",
                "crd/nodeimages.apps.kruise.io",
            ])
            .unwrap();
        cluster
            .kubectl(&["create", "namespace", "kruise-system"])
            .unwrap();
        cluster
            .kubectl(&[
                "-n",
                "kruise-system",
                "create",
                "serviceaccount",
                "kruise-daemon",
            ])
            .unwrap();
        let account = [
            "wait",
            "--for=create",
            "serviceaccount/default",
            "--timeout=120s",
            "-n",
            "kruise-system",
        ];
        cluster.kubectl(&account).unwrap();
        for object in objects() {
            cluster
                .kubectl_with(&["create", "-f", "-"], Some(&object.to_string()))
                .unwrap();
        }
        for node in ["node-1", "node-2", "node-3"] {
            for account in ["kruise-daemon", "default"] {
                cluster
                    .kubectl_with(
                        &["create", "-f", "-"],
                        Some(&pod(account, node).to_string()),
                    )
                    .unwrap();
            }
        }
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
        let service =
            PullSecretsService::new(config.try_into().unwrap(), "kruise-system", "kruise-daemon");

        let directory = TempDir::new().unwrap();
        let (tls, ca) = certificates();
        fs::write(directory.path().join("ca.crt"), ca).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = PullSecrets {
            controller: listener.local_addr().unwrap().to_string(),
            server_name: Some(NAME.into()),
            ca: directory.path().join("ca.crt"),
            token: directory.path().join("token"),
        };
        let (end, ended) = oneshot::channel();
        let serving = secrets::serve(listener, Arc::new(tls), service, async {
            let _ = ended.await;
        });
        Stage {
            cluster,
            directory,
            client,
            server: tokio::spawn(serving),
            end,
        }
    }

    async fn ask(
        &self,
        token: &str,
        image: &str,
        tag: &str,
    ) -> Result<berth_grpc::v1::GetResponse, String> {
        self.client(token, NAME).get(&key(image, tag)).await
    }

    fn client(&self, token: &str, name: &str) -> PullSecrets {
        let path = self.directory.path().join("token");
        fs::write(&path, token).unwrap();
        PullSecrets {
            server_name: Some(name.into()),
            token: path,
            ..self.client.clone()
        }
    }

    /// The token that the kubelet of that node mounts into the daemon's pod.
    fn daemon(&self, node: &str) -> String {
        self.token("kruise-daemon", node, TOKEN_AUDIENCE)
    }

    fn token(&self, account: &str, node: &str, audience: &str) -> String {
        let pod = format!("{account}-{node}");
        let bound = [
            "--bound-object-kind=Pod",
            "--bound-object-name",
            &pod,
            "--audience",
            audience,
        ];
        self.create_token(account, &bound)
    }

    fn unbound(&self) -> String {
        self.create_token("kruise-daemon", &["--audience", TOKEN_AUDIENCE])
    }

    fn create_token(&self, account: &str, arguments: &[&str]) -> String {
        let words = [
            &["-n", "kruise-system", "create", "token", account],
            arguments,
        ]
        .concat();
        self.cluster.kubectl(&words).unwrap()
    }
}

fn key(image: &str, tag: &str) -> Key {
    Key {
        image: image.into(),
        tag: tag.into(),
    }
}

fn pod(account: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{account}-{node}"), "namespace": "kruise-system"},
        "spec": {"serviceAccountName": account, "nodeName": node, "containers": [{"name": "c", "image": "c"}]},
    })
}

fn objects() -> Vec<Value> {
    let secret = |name: &str, registry: &str, password: &str| {
        let config =
            json!({"auths": {registry: {"username": "robot", "password": password}}}).to_string();
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config},
        })
    };
    let named = |names: &[&str]| -> Vec<Value> {
        names
            .iter()
            .map(|name| json!({"namespace": "default", "name": name}))
            .collect()
    };
    let node_image = |name: &str, images: Value| json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": name}, "spec": {"images": images}});
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let tags = json!([{"tag": "1"}]);
    vec![
        node("node-1"),
        node("node-2"),
        node("node-3"),
        secret("all", "registry.example", "for-all"),
        secret("one", "https://registry.example/team", "for-one"),
        secret("unnamed", "registry.example", "for-none"),
        node_image(
            "node-1",
            json!({
                "registry.example/team/app": {"pullSecrets": named(&["all", "missing", "one", "all"]), "tags": tags},
                "registry.example/only-one": {"pullSecrets": named(&["one"]), "tags": tags},
                "plain": {"tags": tags},
            }),
        ),
        node_image(
            "node-2",
            json!({"registry.example/team/app": {"pullSecrets": named(&["all"]), "tags": tags}}),
        ),
    ]
}

/// An authority's certificate, and a server's from it.
fn certificates() -> (ServerConfig, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![NAME.to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    (tls, authority.pem())
}
