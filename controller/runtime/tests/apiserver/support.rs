//! A control plane that the tests share, and requests to it.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use berth_cluster::{Cluster, Options};
use berth_runtime::metrics::Metrics;
use berth_runtime::object::{PODS, Resource};
use berth_runtime::{Change, Object, Store, client};
use berth_workload::objects::owner::{CLONE_SET, OwnerKey};
use berth_workload::objects::pod::Pod;
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The longest wait for an event that must happen. It is long, because only a failure reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The control plane of all tests that do not change it. The last test that uses it stops it.
pub(crate) fn cluster() -> Arc<Cluster> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock();
    if let Some(cluster) = shared.upgrade() {
        return cluster;
    }
    let cluster = Arc::new(own_cluster());
    *shared = Arc::downgrade(&cluster);
    cluster
}

/// A control plane that the test may break.
pub(crate) fn own_cluster() -> Cluster {
    Cluster::up(&Options::default()).expect("a control plane")
}

pub(crate) async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap()
}

pub(crate) async fn connect(cluster: &Cluster) -> Client {
    client::connect(config(&cluster.kubeconfig()).await, Metrics::new(|_| {})).unwrap()
}

pub(crate) async fn request(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> kube::Result<Value> {
    let content = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    send(client, method, path, content, body).await
}

/// A request whose body is of this type.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: &Value,
) -> kube::Result<Value> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .body(body)
        .unwrap();
    client.request(request).await
}

pub(crate) async fn read(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> kube::Result<Value> {
    request(
        client,
        Method::GET,
        &resource.path(namespace, name).unwrap(),
        &Value::Null,
    )
    .await
}

/// A namespace of the test's own, in which pods can be created.
pub(crate) async fn namespace(client: &Client) -> String {
    let body = json!({"metadata": {"generateName": "test-"}});
    let made = request(client, Method::POST, "/api/v1/namespaces", &body)
        .await
        .unwrap();
    let namespace = made["metadata"]["name"].as_str().unwrap().to_owned();
    let account = json!({"metadata": {"name": "default"}});
    // The controller manager makes it too, sooner or later.
    let _ = request(
        client,
        Method::POST,
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        &account,
    )
    .await;
    namespace
}

/// The owner of the pods that [`pod_body`] makes.
pub(crate) fn clone_set<'a>(namespace: &'a str, uid: &'a str) -> OwnerKey<'a> {
    OwnerKey {
        kind: CLONE_SET,
        namespace,
        uid,
    }
}

/// A pod of two containers that belongs to an owner.
pub(crate) fn pod_body(namespace: &str, name: &str, owner: &str) -> Value {
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": owner, "controller": true});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {
            "automountServiceAccountToken": false,
            // No scheduler has this name, so that no other program writes to the pod.
            "schedulerName": "none",
            "containers": [{"name": "first", "image": "x:1"}, {"name": "second", "image": "y:1"}],
        },
    })
}

/// Creates a pod and returns it slim.
pub(crate) async fn create_pod(client: &Client, namespace: &str, name: &str, owner: &str) -> Pod {
    let body = pod_body(namespace, name, owner);
    let made = request(
        client,
        Method::POST,
        &PODS.collection(namespace).unwrap(),
        &body,
    )
    .await
    .unwrap();
    serde_json::from_value(made).unwrap()
}

pub(crate) async fn label(client: &Client, pod: &Pod, value: &str) -> Pod {
    let patch = json!({"metadata": {"labels": {"changed": value}}});
    let path = PODS.path(pod.namespace(), pod.name()).unwrap();
    serde_json::from_value(request(client, Method::PATCH, &path, &patch).await.unwrap()).unwrap()
}

pub(crate) async fn delete(client: &Client, pod: &Pod) {
    let now = json!({"gracePeriodSeconds": 0});
    request(
        client,
        Method::DELETE,
        &PODS.path(pod.namespace(), pod.name()).unwrap(),
        &now,
    )
    .await
    .unwrap();
}

/// A uid that no object has.
pub(crate) fn uid() -> String {
    format!("00000000-0000-4000-8000-{:012x}", fastrand::u64(..1 << 48))
}

/// All changes of a store, in order.
pub(crate) struct Told<T>(mpsc::UnboundedReceiver<Change<T>>);

impl<T: Object> Told<T> {
    pub(crate) fn by(store: &Store<T>) -> Self {
        let (sender, told) = mpsc::unbounded_channel();
        store.on_change(move |change| {
            let change = match change {
                Change::Applied { old, new } => Change::Applied {
                    old: old.clone(),
                    new: new.clone(),
                },
                Change::Deleted { old } => Change::Deleted { old: old.clone() },
                Change::Synced => Change::Synced,
            };
            let _ = sender.send(change);
        });
        Self(told)
    }

    /// Waits for the next change that `wanted` accepts; others before it are dropped.
    pub(crate) async fn next<R>(
        &mut self,
        what: &str,
        wanted: impl Fn(Change<T>) -> Option<R>,
    ) -> R {
        let search = async {
            loop {
                let change = self.0.recv().await.expect("the store is gone");
                if let Some(found) = wanted(change) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, search)
            .await
            .unwrap_or_else(|_| panic!("never told: {what}"))
    }

    pub(crate) async fn synced(&mut self) {
        self.next("synced", |change| {
            matches!(change, Change::Synced).then_some(())
        })
        .await;
    }

    /// Waits until this object is applied, and returns it with what was there before.
    pub(crate) async fn applied(&mut self, name: &str) -> (Option<Arc<T>>, Arc<T>) {
        self.next(&format!("{name} applied"), |change| match change {
            Change::Applied { old, new } if new.name() == name => Some((old, new)),
            _ => None,
        })
        .await
    }

    pub(crate) async fn deleted(&mut self, name: &str) -> Arc<T> {
        self.next(&format!("{name} deleted"), |change| match change {
            Change::Deleted { old } if old.name() == name => Some(old),
            _ => None,
        })
        .await
    }
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("never happened: {what}"));
}
