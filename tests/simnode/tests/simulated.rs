//! The process against a real apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use std::path::Path;
use std::time::Duration;

use berth_cluster::{Cluster, Component, Options as ClusterOptions};
use berth_runtime::metrics::Metrics;
use berth_runtime::{CancellationToken, client};
use berth_simnode::Options;
use berth_simnode::kubelet::Habits;
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODE_IMAGES: &str = "/apis/apps.kruise.io/v1beta1/nodeimages";

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    client::connect(config, Metrics::new(|_| {})).unwrap()
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> kube::Result<Value> {
    let content = if method == Method::PATCH {
        "application/strategic-merge-patch+json"
    } else {
        "application/json"
    };
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content);
    client.request(request.body(body).unwrap()).await
}

async fn until(client: &Client, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let found = send(client, Method::GET, path, &Value::Null)
            .await
            .unwrap_or_default();
        if is_so(&found) {
            return found;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "never {what}: {found}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn pod(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": annotations, "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "main", "image": "web:1"}],
            "readinessGates": [{"conditionType": "Gate"}],
        },
    })
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    })
}

fn observed(pod: &Value) -> bool {
    pod["metadata"]["generation"].is_i64()
        && pod["status"]["observedGeneration"] == pod["metadata"]["generation"]
}

/// A control plane for simulated nodes. The scheduler of the control plane would bind the pods as
/// well.
async fn up() -> (Cluster, Client) {
    let cluster = Cluster::up(&ClusterOptions::default()).expect("a control plane");
    cluster.kill(Component::Scheduler).unwrap();
    let crds = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../charts/berth/files/crds")
        .display()
        .to_string();
    cluster
        .kubectl(&["apply", "--server-side", "-f", &crds])
        .unwrap();
    cluster
        .kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "-f",
            &crds,
        ])
        .unwrap();
    let client = connect(&cluster.kubeconfig()).await;
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    until(&client, account, "a service account", |account| {
        !account["metadata"].is_null()
    })
    .await;
    (cluster, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_live_and_node_images_are_answered() {
    let habits = Habits {
        crashing_images: vec!["web:3".into()],
        ..Habits::default()
    };
    let options = Options {
        nodes: 3,
        habits,
        node_images: true,
        ..Options::default()
    };
    let (_cluster, client) = up().await;
    let stop = CancellationToken::new();
    let scenario = async {
        scenario(&client).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(
        berth_simnode::run(client.clone(), options, stop.clone()),
        scenario
    );
    ended.unwrap();
}

async fn scenario(client: &Client) {
    let a = format!("{PODS}/a");
    send(client, Method::POST, PODS, &pod("a", &json!({})))
        .await
        .unwrap();
    let slow = json!({"simnode/start-delay": "1s", "simnode/stop-delay": "1s"});
    send(client, Method::POST, PODS, &pod("slow", &slow))
        .await
        .unwrap();

    let begun = until(client, &a, "running", |pod| {
        pod["status"]["phase"] == "Running" && observed(pod)
    })
    .await;
    assert!(
        !is_ready(&begun)
            && begun["spec"]["nodeName"]
                .as_str()
                .unwrap()
                .starts_with("sim-"),
        "{begun}"
    );
    let gate = json!({"status": {"conditions": [{"type": "Gate", "status": "True"}]}});
    send(client, Method::PATCH, &format!("{a}/status"), &gate)
        .await
        .unwrap();
    let ready = until(client, &a, "ready", is_ready).await;
    let container = &ready["status"]["containerStatuses"][0];

    let image = |tag: &str| json!({"spec": {"containers": [{"name": "main", "image": tag}]}});
    send(client, Method::PATCH, &a, &image("web:2"))
        .await
        .unwrap();
    let updated = until(client, &a, "updated", |pod| {
        observed(pod) && pod["metadata"]["generation"] != ready["metadata"]["generation"]
    })
    .await;
    let other = &updated["status"]["containerStatuses"][0];
    assert!(
        is_ready(&updated) && other["restartCount"] == 1,
        "{updated}"
    );
    assert!(
        other["containerID"] != container["containerID"]
            && other["imageID"] != container["imageID"],
        "{updated}"
    );
    send(client, Method::PATCH, &a, &image("web:3"))
        .await
        .unwrap();
    let crashes = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    assert!(!is_ready(&until(client, &a, "crashing", crashes).await));

    let slow = format!("{PODS}/slow");
    until(client, &slow, "running", |pod| {
        pod["status"]["phase"] == "Running"
    })
    .await;
    for path in [&a, &slow] {
        send(client, Method::DELETE, path, &Value::Null)
            .await
            .unwrap();
        until(client, path, "gone", Value::is_null).await;
    }

    let node_image = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": {"name": "sim-0"},
        "spec": {"images": {"web": {"tags": [{"tag": "1", "version": 1}]}}},
    });
    send(client, Method::POST, NODE_IMAGES, &node_image)
        .await
        .unwrap();
    let pulled =
        |image: &Value| image["status"]["imageStatuses"]["web"]["tags"][0]["phase"] == "Succeeded";
    until(client, &format!("{NODE_IMAGES}/sim-0"), "pulled", pulled).await;
    let nodes = send(client, Method::GET, "/api/v1/nodes", &Value::Null)
        .await
        .unwrap();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 3);
}
