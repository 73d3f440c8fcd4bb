//! The uses of a daemon's stolen token.

use anyhow::{Context, Result, anyhow, ensure};
use berth_api::v1beta1::NodeImage;
use berth_cluster::Place;
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use berth_grpc::v1::pull_secrets_client::PullSecretsClient;
use berth_grpc::v1::{Credential, GetRequest, GetResponse};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

use crate::world::Case;

/// A daemon's pod and the tokens that its kubelet gave it.
pub(crate) struct Daemon {
    pub(crate) node: String,
    /// For the apiserver.
    pub(crate) token: String,
    /// For the controller.
    controller_token: String,
}

/// The daemon of each node.
pub(crate) async fn daemons(case: &Case) -> Result<Vec<Daemon>> {
    let pods = objects::list(
        case.client(),
        install::NAMESPACE,
        kind::POD,
        "app.kubernetes.io/component=daemon",
    )
    .await?;
    let mut daemons = Vec::new();
    for pod in pods {
        let text = |value: &serde_json::Value| {
            value
                .as_str()
                .map(str::to_owned)
                .context("a daemon's pod is not whole")
        };
        let (uid, node) = (
            text(&pod["metadata"]["uid"])?,
            text(&pod["spec"]["nodeName"])?,
        );
        let (cluster, place): (_, Place) = (case.cluster()?, node.parse()?);
        let read = move |volume: &str| {
            let path = format!(
                "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~projected/{volume}/token"
            );
            cluster.exec(place, &["sh", "-c", &format!("cat {path}")])
        };
        let (token, controller_token) = case
            .blocking(move |_| Ok((read("kube-api-access-*")?, read("token")?)))
            .await?;
        daemons.push(Daemon {
            node,
            token,
            controller_token,
        });
    }
    ensure!(
        daemons.len() == 3,
        "there are {} daemons on three nodes",
        daemons.len()
    );
    Ok(daemons)
}

/// A client with nothing but this token, that accepts a refusal.
pub(crate) async fn client_with(case: &Case, token: &str) -> Result<Client> {
    let mut kubeconfig = Kubeconfig::read_from(case.cluster()?.kubeconfig())?;
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(serde_json::from_value(json!({"token": token.trim()}))?);
    }
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The server refused, in these words.
fn refused<T>(what: &str, answer: Result<T, kube::Error>, words: &str) -> Result<()> {
    match answer {
        Ok(_) => Err(anyhow!("{what} was allowed")),
        Err(kube::Error::Api(status)) if status.message.contains(words) => Ok(()),
        Err(error) => Err(anyhow!(
            "the answer to {what} does not say {words:?}: {error}"
        )),
    }
}

pub(crate) async fn a_daemon_writes_its_own_node_only(case: &Case) -> Result<()> {
    let daemons = daemons(case).await?;
    let (own, other) = (&daemons[0], &daemons[1]);
    let client = client_with(case, &own.token).await?;
    let images: Api<NodeImage> = Api::all(client.clone());
    let params = PatchParams::default();
    let status =
        json!({"status": {"message": "stolen"}, "metadata": {"labels": {"stolen": "yes"}}});
    let status = Patch::Merge(&status);
    images
        .patch_status(&own.node, &params, &status)
        .await
        .context("a daemon cannot write its own node's status")?;
    let foreign = images.patch_status(&other.node, &params, &status).await;
    refused(
        "the status of another node",
        foreign,
        &format!("the daemon of node {} may write", own.node),
    )?;
    let labels =
        &objects::get(case.client(), "", kind::NODE_IMAGE, &own.node).await?["metadata"]["labels"];
    ensure!(
        labels["stolen"].is_null(),
        "a daemon wrote labels: {labels}"
    );

    let pull = json!({"spec": {"images": {"evil": {"tags": [{"tag": "1"}]}}}});
    for node in [&own.node, &other.node] {
        refused(
            "a pull of its own",
            images.patch(node, &params, &Patch::Merge(&pull)).await,
            "forbidden",
        )?;
    }
    refused(
        "a new NodeImage",
        images
            .create(&PostParams::default(), &NodeImage::new("x", <_>::default()))
            .await,
        "forbidden",
    )?;

    let everything = ListParams::default();
    refused(
        "all secrets",
        Api::<Secret>::all(client.clone()).list(&everything).await,
        "forbidden",
    )?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), install::NAMESPACE);
    refused(
        "a secret by name",
        secrets.get("kruise-webhook-certs").await,
        "forbidden",
    )?;
    refused(
        "all pods",
        Api::<Pod>::all(client.clone()).list(&everything).await,
        "forbidden",
    )?;
    let mint = client.request_text(
        http::Request::post(format!(
            "/api/v1/namespaces/{}/serviceaccounts/kruise-daemon/token",
            install::NAMESPACE
        ))
        .body(
            br#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#
                .to_vec(),
        )?,
    );
    refused("another token", mint.await, "forbidden")?;

    // A token of the same account that no kubelet gave to a pod.
    let unbound = case
        .kubectl(&[
            "create",
            "token",
            "kruise-daemon",
            "-n",
            install::NAMESPACE,
            "--duration=10m",
        ])
        .await?;
    let images: Api<NodeImage> = Api::all(client_with(case, &unbound).await?);
    refused(
        "a write without a node",
        images.patch_status(&own.node, &params, &status).await,
        "names no node",
    )?;
    // The apiserver refuses the token for the controller.
    let client = client_with(case, &own.controller_token).await?;
    refused(
        "the controller's token",
        Api::<NodeImage>::all(client).list(&everything).await,
        "Unauthorized",
    )
}

/// The name of the Secret for the registry.
pub(crate) const PULL_SECRET: &str = "robot";

/// Makes a Secret with this password for the registry.
pub(crate) async fn create_pull_secret(case: &Case, password: &str) -> Result<()> {
    let auths =
        json!({"auths": {case.site.registry(): {"username": "robot", "password": password}}})
            .to_string();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": PULL_SECRET},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": auths},
    });
    case.create(&secret).await.map(drop)
}

pub(crate) async fn a_daemon_gets_its_own_secrets_only(case: &Case) -> Result<()> {
    let daemons = daemons(case).await?;
    let (own, other) = (&daemons[0], &daemons[1]);
    let image = case.image("v1").await?;
    let repository = image.rsplit_once(':').unwrap_or_default().0;
    create_pull_secret(case, "of-this-node").await?;
    let job = json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": "private"},
        "spec": {
            "image": image,
            "pullSecrets": [PULL_SECRET],
            "selector": {"names": [own.node]},
            // The entry stays in the NodeImage, so that the daemon may request secrets again and
            // again.
            "completionPolicy": {"type": "Never"},
        },
    });
    case.create(&job).await?;
    case.until(kind::IMAGE_PULL_JOB, "private", |job| {
        job["status"]["succeeded"] == 1
    })
    .await?;

    let given = ask(case, &own.controller_token, repository, "v1")
        .await?
        .map_err(|status| anyhow!("{status}"))?;
    ensure!(
        given.credentials.len() == 1 && given.credentials[0].password == "of-this-node",
        "{given:?}"
    );
    for (what, token, tag, code) in [
        (
            "another node's",
            &other.controller_token,
            "v1",
            Code::PermissionDenied,
        ),
        (
            "another pull's",
            &own.controller_token,
            "v2",
            Code::PermissionDenied,
        ),
        (
            "the apiserver's token",
            &own.token,
            "v1",
            Code::Unauthenticated,
        ),
        ("no token", &String::new(), "v1", Code::Unauthenticated),
    ] {
        match ask(case, token, repository, tag).await? {
            Ok(given) => return Err(anyhow!("{what}: was given {given:?}")),
            Err(status) => ensure!(status.code() == code, "{what}: {status}"),
        }
    }
    Ok(())
}

/// The credentials that a node's daemon gets for a pull of this image. None if it is refused.
pub(crate) async fn given_to(
    case: &Case,
    node: &str,
    image: &str,
    tag: &str,
) -> Result<Vec<Credential>> {
    let daemons = daemons(case).await?;
    let daemon = daemons
        .iter()
        .find(|daemon| daemon.node == node)
        .with_context(|| format!("{node} has no daemon"))?;
    match ask(case, &daemon.controller_token, image, tag).await? {
        Ok(given) => Ok(given.credentials),
        Err(status) if status.code() == Code::PermissionDenied => Ok(Vec::new()),
        Err(status) => Err(status.into()),
    }
}

/// Calls the controller as a daemon does.
async fn ask(
    case: &Case,
    token: &str,
    image: &str,
    tag: &str,
) -> Result<Result<GetResponse, Status>> {
    let selector = "app.kubernetes.io/component=controller";
    let pods = objects::list(case.client(), install::NAMESPACE, kind::POD, selector).await?;
    let stays = |pod: &&serde_json::Value| pod["metadata"]["deletionTimestamp"].is_null();
    let ip = pods
        .iter()
        .filter(stays)
        .find_map(|pod| pod["status"]["podIP"].as_str())
        .context("no controller has an IP")?
        .to_owned();
    let ca = objects::get(
        case.client(),
        install::NAMESPACE,
        "v1/ConfigMap",
        "kruise-ca",
    )
    .await?;
    let ca = ca["data"]["ca.crt"]
        .as_str()
        .context("kruise-ca has no ca.crt")?
        .to_owned();
    let name = format!("kruise-manager-grpc.{}.svc", install::NAMESPACE);
    let mut request = tonic::Request::new(GetRequest {
        image: image.to_owned(),
        tag: tag.to_owned(),
    });
    if !token.is_empty() {
        request
            .metadata_mut()
            .insert("authorization", format!("Bearer {}", token.trim()).parse()?);
    }
    let cluster = case.cluster()?;
    let call = async move {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca))
            .domain_name(name);
        let channel = Endpoint::from_shared(format!("https://{ip}:9877"))?
            .tls_config(tls)?
            .connect()
            .await?;
        anyhow::Ok(
            PullSecretsClient::new(channel)
                .get(request)
                .await
                .map(tonic::Response::into_inner),
        )
    };
    // Pods are reachable from within the cluster's network, by sockets that are made there.
    let asked = tokio::task::spawn_blocking(move || {
        cluster.in_network(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(call)
        })
    });
    asked.await??
}

/// The controller may write ConfigMaps in every namespace, for pods with a launch order; it changes
/// no other ConfigMap.
pub(crate) async fn the_controller_writes_barriers_only(case: &Case) -> Result<()> {
    let token = case
        .kubectl(&[
            "create",
            "token",
            "kruise-manager",
            "-n",
            install::NAMESPACE,
            "--duration=10m",
        ])
        .await?;
    let client = client_with(case, &token).await?;
    let words = "which its pod owns";
    let patch = json!({"data": {"stolen": "yes"}});
    let dns: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let root = "kube-root-ca.crt";
    refused(
        "another's",
        dns.patch(root, &PatchParams::default(), &Patch::Merge(&patch))
            .await,
        words,
    )?;
    let own: Api<ConfigMap> = Api::namespaced(client, &case.namespace);
    let map = |name: &str, owners: &[(&str, &str)]| {
        let owner = |(kind, name): &(&str, &str)| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u"});
        let owners: Vec<_> = owners.iter().map(owner).collect();
        serde_json::from_value::<ConfigMap>(
            json!({"metadata": {"name": name, "ownerReferences": owners}}),
        )
    };
    for (what, map) in [
        ("one without an owner", map("web-barrier", &[])?),
        (
            "one of two owners",
            map("web-barrier", &[("Pod", "web"), ("Pod", "other")])?,
        ),
        (
            "one that no pod owns",
            map("web-barrier", &[("Secret", "web")])?,
        ),
        ("one of another name", map("web", &[("Pod", "web")])?),
    ] {
        refused(what, own.create(&PostParams::default(), &map).await, words)?;
    }
    // The garbage collector deletes objects whose owners do not exist.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "web:v1"}]},
    });
    let uid = case.create(&pod).await?["metadata"]["uid"].clone();
    let barrier = json!({"metadata": {
        "name": "web-barrier", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid}],
    }});
    own.create(&PostParams::default(), &serde_json::from_value(barrier)?)
        .await
        .context("a barrier")?;
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "x"}]}});
    let stolen = own
        .patch(
            "web-barrier",
            &PatchParams::default(),
            &Patch::Merge(&owner),
        )
        .await;
    refused("the barrier of another pod", stolen, words)
}
