//! A small world for tests: an apiserver that applies plans, and kubelets that follow when they are told to.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::template::PodTemplate;
use berth_api::v1beta1::nodeimage::InspectedPod;
use berth_api::v1beta1::statefulset::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use berth_workload::gates::{Gate, Gates};
use berth_workload::inplace::resize::Ability;
use berth_workload::node::image::NodeImage;
use berth_workload::plan::{Action, Outcome, Plan};
use berth_workload::pod::{Pod, availability};
use berth_workload::pod_owner::orphans;
use berth_workload::podset::adopt::Orphans;
use berth_workload::podset::{Phases, split_by_selector};
use berth_workload::resource::CLAIMS;
use berth_workload::revision::{self, Revision};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use berth_workload::ordinals::ordinal_of;

use super::{Snapshot, StatefulSetOwner, decide, former_claims, names_to_look_at, status};
use crate::model::apiserver::{self, Objects, set_condition};
use crate::model::claims::Claims;
use crate::model::kubelet::publish;
use crate::model::{containers, health};

pub(super) struct World {
    pub(super) set: Arc<StatefulSet>,
    pub(super) gates: Gates,
    pub(super) pods: Objects,
    pub(super) claims: Claims,
    pub(super) revisions: Objects,
    /// Pods that their kubelets do not end.
    pub(super) unreachable: Vec<String>,
    now: Timestamp,
    counter: u64,
    last: Plan,
}

/// The template of a pod with one container of this image.
pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

impl World {
    /// A set of so many replicas, with these fields of the spec besides.
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
        Self {
            set: Arc::new(serde_json::from_value(set).unwrap()),
            gates: Gates::default().with(Gate::StatefulSetStartOrdinal, true),
            pods: Objects::new(),
            claims: Claims::default(),
            revisions: Objects::new(),
            unreachable: Vec::new(),
            now: Timestamp::from_second(1_000_000).unwrap(),
            counter: 0,
            last: Plan::default(),
        }
    }

    /// The same, with all pods made.
    pub(super) fn settled(replicas: i32, fields: Value) -> Self {
        let mut world = Self::new(replicas, fields);
        world.settle();
        world
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
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

    /// All pods, as they are stored.
    pub(super) fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.pods
            .values()
            .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
            .collect()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let owner = self.set.metadata.uid.as_deref().unwrap();
        let is_owned = |pod: &Arc<Pod>| {
            pod.metadata
                .controller()
                .is_some_and(|other| *other.uid == *owner)
        };
        let (owned, others): (Vec<_>, Vec<_>) = self.all_pods().into_iter().partition(is_owned);
        let (pods, mut strays) = split_by_selector(&self.set.spec.selector, owned);
        let (pods, unnamed): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|pod| ordinal_of("db", &pod.metadata.name).is_some());
        strays.extend(unnamed);
        let (created, mut claims) = names_to_look_at(
            &self.set,
            &pods,
            self.gates.has(Gate::StatefulSetStartOrdinal),
        );
        let named: Vec<_> = others
            .iter()
            .filter(|pod| created.iter().any(|name| **name == *pod.metadata.name))
            .collect();
        claims.extend(former_claims(
            &self.set,
            pods.iter().chain(named.iter().copied()),
        ));
        let seen = self
            .claims
            .seen()
            .into_iter()
            .filter(|claim| claims.iter().any(|name| **name == *claim.metadata.name));
        let decode = |value: &Value| -> Arc<Revision> {
            Arc::new(serde_json::from_value(value.clone()).unwrap())
        };
        let of_set = |revision: &Arc<Revision>| revision.metadata.controller().is_some();
        let (mut revisions, orphaned): (Vec<_>, Vec<_>) =
            self.revisions.values().map(decode).partition(of_set);
        revision::sort(&mut revisions);
        Snapshot {
            set: self.set.clone(),
            own: StatefulSetOwner {
                others: named
                    .into_iter()
                    .map(|pod| (pod.metadata.name.clone(), pod.clone()))
                    .collect(),
                claims: seen
                    .map(|claim| (claim.metadata.name.clone(), claim))
                    .collect(),
                ..StatefulSetOwner::default()
            },
            orphans: orphans::<StatefulSetOwner>(
                &self.set,
                Orphans {
                    pods: others.clone(),
                    claims: Vec::new(),
                    revisions: orphaned,
                },
            ),
            pods,
            strays,
            revisions,
            node_images: self.nodes(),
            jobs: Some(Vec::new()),
            unreadable: Vec::new(),
            overlapping: Vec::new(),
            nodes: BTreeMap::new(),
            ended: (),
            phases: Phases::default(),
            gates: self.gates,
            resize: Ability::Off,
            seed: 0,
        }
    }

    /// What daemons report: every container with what it was created from.
    fn nodes(&self) -> BTreeMap<Box<str>, Arc<NodeImage>> {
        let mut node: NodeImage =
            serde_json::from_value(json!({"metadata": {"name": "node"}, "spec": {}})).unwrap();
        let inspect = |pod: &Value| InspectedPod {
            uid: pod["metadata"]["uid"].as_str().unwrap().to_owned(),
            containers: containers::inspected(pod),
            observed_at: None,
        };
        node.status.get_or_insert_default().inspected_pods =
            self.pods.values().map(inspect).collect();
        [("node".into(), Arc::new(node))].into()
    }

    pub(super) fn plan(&self) -> Plan {
        decide(&self.snapshot(), self.now)
    }

    /// Decides, writes, and updates the status, as the controller does.
    pub(super) fn step(&mut self) -> Plan {
        let plan = self.plan();
        for action in plan.actions() {
            self.write(action);
        }
        self.claims.collect_garbage(&self.pods);
        self.last = plan.clone();
        let status = self.status();
        Arc::make_mut(&mut self.set).status = Some(status);
        plan
    }

    pub(super) fn status(&self) -> StatefulSetStatus {
        status(&self.snapshot(), &self.last, &Outcome::default(), self.now).unwrap_or_default()
    }

    pub(super) fn write(&mut self, action: &Action) {
        let (uid, now) = (format!("uid-{}", self.next()), json!(self.now));
        let written = match action {
            Action::CreatePod { .. }
            | Action::PatchPod { .. }
            | Action::PatchPodStatus { .. }
            | Action::DeletePod { .. }
            | Action::ReleasePod { .. }
            | Action::AdoptPod { .. } => apiserver::write_pod(&mut self.pods, action, &uid, &now),
            Action::CreateRevision { .. }
            | Action::AdoptRevision { .. }
            | Action::RenumberRevision { .. }
            | Action::DeleteRevision { .. } => {
                apiserver::write_revision(&mut self.revisions, action, &uid, &now)
            }
            Action::Create {
                resource: CLAIMS, ..
            }
            | Action::PatchClaim { .. } => {
                self.claims.write(action);
                Ok(())
            }
            Action::ValidateTemplate { .. } | Action::Confirm { .. } => Ok(()),
            other => panic!("no StatefulSet writes {}", other.deed()),
        };
        assert_eq!(written, Ok(()), "{} was refused", action.deed());
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

    /// Runs everything until nothing happens.
    pub(super) fn settle(&mut self) {
        for _ in 0..300 {
            let plan = self.step();
            let before = self.pods.clone();
            self.pods.values_mut().for_each(containers::stop);
            self.run_kubelets();
            let rests = self.pods == before;
            self.pass(1);
            if rests && plan.is_idle() && plan.look_again.is_none() && self.plan().is_idle() {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.plan());
    }

    /// Somebody deletes the pod.
    pub(super) fn delete(&mut self, name: &str) {
        let now = json!(self.now);
        if let Some(pod) = self.pods.get_mut(name) {
            pod["metadata"]["deletionTimestamp"] = now;
        }
    }

    /// The pod's container fails until it is made from another image.
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

/// What a plan does to pods and claims, a word and a name each.
pub(super) fn told(plan: &Plan) -> Vec<String> {
    let of = |action: &Action| {
        let verb = action.deed();
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
