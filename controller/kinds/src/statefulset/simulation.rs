//! A small world for tests: an apiserver that applies plans, and kubelets that follow when a test
//! runs them.

use std::sync::Arc;

use berth_api::fields::template::PodTemplate;
use berth_api::v1beta1::statefulset::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::objects::pod::availability;
use berth_workload::objects::resource::CLAIMS;
use berth_workload::plan::{Action, Plan};
use serde_json::{Value, json};

use super::{Snapshot, StatefulSetOwner, former_claims, names_to_look_at};
use crate::model::apiserver::{self, set_condition};
use crate::model::kubelet::publish;
use crate::model::world::{self, Simulated};
use crate::model::{containers, health};

pub(super) type World = world::World<StatefulSetOwner>;

/// The parts that only worlds of StatefulSets have.
#[derive(Default)]
pub(crate) struct More {
    /// Pods that their kubelets do not end.
    pub(super) unreachable: Vec<String>,
}

/// The template of a pod with one container of this image.
pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

impl Simulated for StatefulSetOwner {
    type More = More;

    fn set_status(set: &mut StatefulSet, status: Option<StatefulSetStatus>) {
        set.status = status;
    }

    fn snapshot(world: &World) -> Snapshot {
        world.seen(|pods, strays, others| {
            let all = std::mem::take(pods);
            let (named, unnamed): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|pod| ordinal_of("db", &pod.metadata.name).is_some());
            *pods = named;
            strays.extend(unnamed);
            let counts_start = world.gates.has(Gate::StatefulSetStartOrdinal);
            let (created, mut claims) = names_to_look_at(&world.set, pods, counts_start);
            let of_our_names: Vec<_> = others
                .iter()
                .filter(|pod| created.iter().any(|name| **name == *pod.metadata.name))
                .collect();
            let all = pods.iter().chain(of_our_names.iter().copied());
            claims.extend(former_claims(&world.set, all));
            let mut seen = world.claims.seen();
            seen.retain(|claim| claims.iter().any(|name| **name == *claim.metadata.name));
            StatefulSetOwner {
                others: of_our_names
                    .into_iter()
                    .map(|pod| (pod.metadata.name.clone(), pod.clone()))
                    .collect(),
                claims: seen
                    .into_iter()
                    .map(|claim| (claim.metadata.name.clone(), claim))
                    .collect(),
                ..StatefulSetOwner::default()
            }
        })
    }

    fn write(world: &mut World, action: &Action) {
        if world.write_pod_or_revision(action) {
            return;
        }
        match action {
            Action::Create {
                resource: CLAIMS, ..
            }
            | Action::PatchClaim { .. } => world.claims.write(action),
            Action::ValidateTemplate { .. } | Action::Confirm { .. } => {}
            other => panic!("no StatefulSet writes {}", other.write()),
        }
    }

    fn run_nodes(world: &mut World) {
        world.pods.values_mut().for_each(containers::stop);
        world.run_kubelets();
    }
}

impl World {
    /// A set with so many replicas, and with these other fields of the spec.
    pub(super) fn new(replicas: i32, fields: Value) -> Self {
        let mut spec = json!({
            "replicas": replicas, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "db",
            "template": template("db:0"),
        });
        apiserver::merge(&mut spec, &fields);
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "spec": spec,
            "metadata": {"name": "db", "namespace": "default", "uid": "set", "generation": 1},
        });
        let mut world = Self::with(set, More::default());
        world.gates = Gates::default().with(Gate::StatefulSetStartOrdinal, true);
        world
    }

    /// The same, with all pods created.
    pub(super) fn settled(replicas: i32, fields: Value) -> Self {
        let mut world = Self::new(replicas, fields);
        world.settle();
        world
    }

    /// Changes the spec.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut StatefulSetSpec)) {
        edit(&mut Arc::make_mut(&mut self.set).spec);
    }

    /// Changes fields of the spec by a merge patch.
    pub(super) fn merge(&mut self, fields: &Value) {
        let mut spec = serde_json::to_value(&self.set.spec).unwrap();
        apiserver::merge(&mut spec, fields);
        self.edit(|old| *old = serde_json::from_value(spec).unwrap());
    }

    pub(super) fn set_image(&mut self, image: &str) {
        self.edit(|spec| spec.template = PodTemplate::from(&template(image)));
    }

    /// One sync of each kubelet.
    pub(super) fn run_kubelets(&mut self) {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.run_kubelet(&name);
        }
        self.claims.collect_garbage(&self.pods);
    }

    /// One sync of the kubelet for this pod, if there is one.
    pub(super) fn run_kubelet(&mut self, name: &str) {
        let (id, now) = (self.next(), self.now);
        let Some(pod) = self.pods.get_mut(name) else {
            return;
        };
        let is_held = pod["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if !is_held && !self.unreachable.iter().any(|other| other == name) {
                self.pods.remove(name);
            }
            return;
        }
        if pod["spec"]["nodeName"].is_null() {
            pod["spec"]["nodeName"] = json!("node");
            return;
        }
        if pod["status"]["phase"] == "Failed" {
            return;
        }
        containers::sync(pod, id, None, false);
        let serves = health::probe(pod, false);
        pod["status"]["phase"] = json!("Running");
        publish(pod, serves, now);
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
    pub(super) fn fail(&mut self, name: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod["status"]["phase"] = json!("Failed");
        }
    }

    pub(super) fn label(&mut self, name: &str, key: &str, value: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod["metadata"]["labels"][key] = json!(value);
        }
    }

    /// The names of all pods with their images.
    pub(super) fn images(&self) -> Vec<String> {
        let of = |(name, pod): (&String, &Value)| {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
            format!("{name} {}", image.trim_start_matches("db:"))
        };
        self.pods.iter().map(of).collect()
    }

    pub(super) fn uid(&self, name: &str) -> String {
        self.pods[name]["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// How many pods serve.
    pub(super) fn available(&self) -> usize {
        self.all_pods()
            .iter()
            .filter(|pod| availability(pod, 0, self.now).is_available())
            .count()
    }
}

/// The plan's writes to pods and claims, each as a word and a name.
pub(super) fn written(plan: &Plan) -> Vec<String> {
    let of = |action: &Action| {
        let verb = action.write();
        let name = match action {
            Action::CreatePod { body } => body.value()["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned(),
            Action::Create { body, .. } => body["metadata"]["name"].as_str().unwrap().to_owned(),
            Action::DeletePod { target }
            | Action::PatchPod { target, .. }
            | Action::PatchPodStatus { target, .. }
            | Action::AdoptPod { target, .. }
            | Action::ReleasePod { target, .. }
            | Action::PatchClaim { target, .. } => target.name.clone(),
            _ => return None,
        };
        Some(format!("{verb} {name}"))
    };
    plan.actions().filter_map(of).collect()
}
