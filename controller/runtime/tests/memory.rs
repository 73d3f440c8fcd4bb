//! The memory of a node: its Node and its NodeImage. One test, because it measures the memory of
//! the whole process.

use std::sync::Arc;

use berth_runtime::object::{NODE_IMAGES, NODES};
use berth_runtime::{Object, Resource, Store};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Metadata;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The most memory of a node, in bytes.
const MOST: usize = 2048;
const NODES_IN_ALL: usize = 20_000;

/// As the controller holds it: shared with the snapshots that are made of it.
struct Held<T>(Arc<T>);

trait Kind: for<'de> Deserialize<'de> + Send + Sync + 'static {
    const RESOURCE: Resource;
    fn metadata(&self) -> &Metadata;
}

impl Kind for Node {
    const RESOURCE: Resource = NODES;
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Kind for NodeImage {
    const RESOURCE: Resource = NODE_IMAGES;
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl<'de, T: Kind> Deserialize<'de> for Held<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|object| Self(Arc::new(object)))
    }
}

impl<T: Kind> Object for Held<T> {
    const RESOURCE: Resource = T::RESOURCE;

    fn namespace(&self) -> &str {
        ""
    }
    fn name(&self) -> &str {
        &self.0.metadata().name
    }
    fn uid(&self) -> &str {
        &self.0.metadata().uid
    }
    fn resource_version(&self) -> &str {
        &self.0.metadata().resource_version
    }
    fn terminating(&self) -> bool {
        self.0.metadata().deletion_timestamp.is_some()
    }
}

/// The memory of this process that is no file's, in bytes. `None` where the kernel does not say.
fn anonymous() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

fn metadata(number: usize, kind: &str) -> Value {
    let name = format!("node-{number}.example.com");
    json!({
        "name": name, "uid": format!("01234567-89ab-cdef-{kind}-{number:012}"), "resourceVersion": format!("{}", 1_000_000 + number),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        "labels": {
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "europe-1a",
        },
    })
}

/// A node with a kubelet's status, most of which no decision reads.
fn node(number: usize) -> Value {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "message": "as the kubelet says"});
    let images: Vec<_> = (0..20)
        .map(|n| json!({"names": [format!("registry.example.com/app{n}:1")], "sizeBytes": n}))
        .collect();
    json!({
        "metadata": metadata(number, "0000"),
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": format!("cloud://{number}")},
        "status": {
            "allocatable": {
                "cpu": "7910m", "ephemeral-storage": "47093746742", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
                "memory": "31482288Ki", "pods": "110",
            },
            "conditions": [condition("MemoryPressure", "False"), condition("Ready", "True")],
            "images": images,
        },
    })
}

fn image(number: usize) -> Value {
    let condition = json!({
        "type": "RuntimeReady", "status": "True", "reason": "RuntimeAnswers", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let status =
        json!({"desired": 0, "succeeded": 0, "failed": 0, "pulling": 0, "conditions": [condition]});
    json!({"metadata": metadata(number, "1111"), "spec": {}, "status": status})
}

#[test]
fn node_and_its_image_take_less_than_two_kibibytes() {
    let (nodes, images) = (
        Store::<Held<Node>>::new(&[]),
        Store::<Held<NodeImage>>::new(&[]),
    );
    let read = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            nodes.apply(serde_json::from_str(&node(number).to_string()).unwrap());
            images.apply(serde_json::from_str(&image(number).to_string()).unwrap());
        }
    };
    // Memory that is needed once, for any number of nodes.
    read(0..100);
    let before = anonymous().unwrap();
    read(100..100 + NODES_IN_ALL);
    let taken = (anonymous().unwrap() - before) / NODES_IN_ALL;
    assert_eq!(
        (nodes.len(), images.len()),
        (100 + NODES_IN_ALL, 100 + NODES_IN_ALL)
    );
    println!("{taken} bytes a node");
    assert!(
        taken < MOST,
        "a node takes {taken} bytes, which may be {MOST}"
    );
}
