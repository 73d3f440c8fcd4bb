//! A small world for tests: an apiserver that applies plans, and kubelets that follow when a test
//! runs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::daemonset::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::Action;
use berth_workload::update::revision;
use serde_json::{Value, json};

use super::{DaemonSetOwner, Snapshot, namesakes, node_of};
use crate::model::apiserver::{self, set_condition};
use crate::model::kubelet::publish;
use crate::model::world::{self, Simulated};
use crate::model::{containers, health};

pub(super) type World = world::World<DaemonSetOwner>;

/// The parts that only worlds of DaemonSets have.
#[derive(Default)]
pub(crate) struct More {
    /// Nodes by name, as the apiserver has them.
    pub(super) nodes: BTreeMap<String, Value>,
}

/// The template of a pod with one container of this image.
pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

impl Simulated for DaemonSetOwner {
    type More = More;

    fn set_status(set: &mut DaemonSet, status: Option<DaemonSetStatus>) {
        set.status = status;
    }

    fn snapshot(world: &World) -> Snapshot {
        let node = |(name, node): (&String, &Value)| {
            let node: Node = serde_json::from_value(node.clone()).unwrap();
            (name.as_str().into(), Arc::new(node))
        };
        let image = world.node_image(&json!({"metadata": {"name": "node"}, "spec": {}}));
        let names = world.nodes.keys();
        Snapshot {
            nodes: world.nodes.iter().map(node).collect(),
            node_images: names
                .map(|name| (name.as_str().into(), image.clone()))
                .collect(),
            ..world.seen(|_, _, others| DaemonSetOwner {
                namesakes: namesakes(&world.set, others),
                assigns_by_scheduler: true,
            })
        }
    }

    fn write(world: &mut World, action: &Action) {
        let is_written = world.write_pod_or_revision(action);
        match action {
            _ if is_written => {}
            // Every write takes a number, and the numbers seed the names of pods.
            Action::ValidateTemplate { .. } | Action::Confirm { .. } => {
                world.next();
            }
            other => panic!("no DaemonSet writes {}", other.write()),
        }
    }

    fn run_nodes(world: &mut World) {
        world.run_daemons();
        world.run_kubelets();
    }
}

impl World {
    /// A set with these fields of the spec besides, and so many nodes, n0, n1, ….
    pub(super) fn new(nodes: usize, fields: Value) -> Self {
        let mut spec =
            json!({"selector": {"matchLabels": {"app": "log"}}, "template": template("log:0")});
        apiserver::merge(&mut spec, &fields);
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "spec": spec,
            "metadata": {"name": "log", "namespace": "default", "uid": "set", "generation": 1},
        });
        let mut world = Self::with(set, More::default());
        (0..nodes).for_each(|at| world.add_node(&format!("n{at}")));
        world
    }

    /// The same, with all pods created.
    pub(super) fn settled(nodes: usize, fields: Value) -> Self {
        let mut world = Self::new(nodes, fields);
        world.settle();
        world
    }

    pub(super) fn add_node(&mut self, name: &str) {
        let uid = format!("node-{}", self.next());
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        self.nodes.insert(
            name.to_owned(),
            json!({"metadata": {"name": name, "uid": uid, "labels": {}}, "spec": {}, "status": ready}),
        );
    }

    /// Changes a node by a merge patch.
    pub(super) fn change_node(&mut self, name: &str, patch: &Value) {
        if let Some(node) = self.nodes.get_mut(name) {
            apiserver::merge(node, patch);
        }
    }

    /// A node's `Ready` condition.
    pub(super) fn set_ready(&mut self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "Unknown" };
        self.change_node(
            name,
            &json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}),
        );
        let now = self.now;
        for pod in self
            .pods
            .values_mut()
            .filter(|pod| pod["spec"]["nodeName"] == *name && !ready)
        {
            set_condition(
                pod,
                json!({"type": "Ready", "status": "False", "lastTransitionTime": now}),
            );
        }
    }

    fn is_ready(&self, node: &str) -> bool {
        self.nodes
            .get(node)
            .is_some_and(|node| node["status"]["conditions"][0]["status"] == "True")
    }

    /// Changes fields of the spec by a merge patch.
    pub(super) fn merge(&mut self, fields: &Value) {
        let set = Arc::make_mut(&mut self.set);
        let mut spec = serde_json::to_value(&set.spec).unwrap();
        apiserver::merge(&mut spec, fields);
        set.spec = serde_json::from_value::<DaemonSetSpec>(spec).unwrap();
        set.metadata.generation = set.metadata.generation.map(|generation| generation + 1);
    }

    /// Sets an annotation of the DaemonSet.
    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let annotations = Arc::make_mut(&mut self.set)
            .metadata
            .annotations
            .get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }

    pub(super) fn set_image(&mut self, image: &str) {
        self.merge(&json!({"template": template(image)}));
    }

    /// One sync of each kubelet.
    pub(super) fn run_kubelets(&mut self) {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.run_kubelet(&name);
        }
    }

    /// One sync of the scheduler and the kubelet for this pod. A node that is not ready makes none.
    pub(super) fn run_kubelet(&mut self, name: &str) {
        let (id, now) = (self.next(), self.now);
        let Some(pod) = self.pods.get(name) else {
            return;
        };
        let seen: Pod = serde_json::from_value(pod.clone()).unwrap();
        let node = node_of(&seen).to_owned();
        let (exists, is_ready) = (self.nodes.contains_key(&node), self.is_ready(&node));
        let is_bound = !seen.spec.node_name.is_empty();
        let Some(pod) = self.pods.get_mut(name) else {
            return;
        };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let is_held = pod["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|all| !all.is_empty());
            if !is_held && (is_ready || !exists || !is_bound) {
                self.pods.remove(name);
            }
            return;
        }
        // The garbage collector of pods.
        if is_bound && !exists {
            self.pods.remove(name);
            return;
        }
        if !is_bound && exists {
            pod["spec"]["nodeName"] = json!(node);
            return;
        }
        if !is_ready
            || ["Failed", "Succeeded"]
                .iter()
                .any(|phase| pod["status"]["phase"] == *phase)
        {
            return;
        }
        containers::sync(pod, id, None, false);
        let serves = health::probe(pod, false);
        pod["status"]["phase"] = json!("Running");
        publish(pod, serves, now);
    }

    /// The daemons of ready nodes stop the containers that must be created anew.
    pub(super) fn run_daemons(&mut self) {
        let ready: Vec<_> = self
            .nodes
            .keys()
            .filter(|node| self.is_ready(node))
            .cloned()
            .collect();
        let is_there =
            |pod: &&mut Value| ready.iter().any(|node| pod["spec"]["nodeName"] == **node);
        self.pods
            .values_mut()
            .filter(is_there)
            .for_each(containers::stop);
    }

    /// The pod's container fails until it is created from another image.
    pub(super) fn break_pod(&mut self, name: &str) {
        let now = self.now;
        let Some(pod) = self
            .pods
            .get_mut(name)
            .filter(|pod| pod["created"].is_object())
        else {
            return;
        };
        health::break_container(pod);
        set_condition(
            pod,
            json!({"type": "Ready", "status": "False", "lastTransitionTime": now}),
        );
    }

    /// The pod has ended.
    pub(super) fn end(&mut self, name: &str, phase: &str) {
        let now = self.now;
        if let Some(pod) = self
            .pods
            .get_mut(name)
            .filter(|pod| pod["spec"]["nodeName"].is_string())
        {
            pod["status"]["phase"] = json!(phase);
            set_condition(
                pod,
                json!({"type": "Ready", "status": "False", "lastTransitionTime": now}),
            );
        }
    }

    pub(super) fn label(&mut self, name: &str, key: &str, value: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod["metadata"]["labels"][key] = json!(value);
        }
    }

    /// Writes the newest revision once more, with this number and name, as another controller may.
    /// Returns the hash of the copied revision; `None` if the name exists.
    pub(super) fn duplicate_revision(&mut self, number: i64, name: &str) -> Option<String> {
        let newest = self
            .revisions
            .values()
            .max_by_key(|revision| revision["revision"].as_i64())
            .cloned();
        let mut revision = newest.filter(|_| !self.revisions.contains_key(name))?;
        let copied = revision::short(revision["metadata"]["name"].as_str()?).to_owned();
        revision["metadata"]["name"] = json!(name);
        revision["metadata"]["uid"] = json!(format!("uid-{}", self.next()));
        revision["revision"] = json!(number);
        self.revisions.insert(name.to_owned(), revision);
        Some(copied)
    }

    /// The name of the first pod of a node.
    pub(super) fn pod_of(&self, node: &str) -> String {
        let pods = self.all_pods();
        pods.iter()
            .find(|pod| node_of(pod) == node)
            .map(|pod| pod.metadata.name.to_string())
            .unwrap_or_default()
    }

    /// Each node with the images of its pods, those being deleted in brackets.
    pub(super) fn images(&self) -> Vec<String> {
        let mut all: BTreeMap<String, Vec<String>> = self
            .nodes
            .keys()
            .map(|name| (name.clone(), vec![]))
            .collect();
        for pod in self.all_pods() {
            let image = pod.spec.containers[0]
                .image
                .trim_start_matches("log:")
                .to_owned();
            let goes = pod.metadata.deletion_timestamp.is_some();
            all.entry(node_of(&pod).to_owned())
                .or_default()
                .push(if goes { format!("({image})") } else { image });
        }
        all.into_iter()
            .map(|(node, images)| format!("{node} {}", images.join(" ")).trim_end().to_owned())
            .collect()
    }

    /// How many pods serve.
    pub(super) fn available(&self) -> usize {
        self.all_pods()
            .iter()
            .filter(|pod| {
                availability(pod, self.set.spec.min_ready_seconds, self.now).is_available()
            })
            .count()
    }
}
