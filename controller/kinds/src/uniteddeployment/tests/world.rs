//! Rounds of a UnitedDeployment with workloads whose pods start at once if their subset has nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::kinds::uniteddeployment::names::label::RESERVED_POD;
use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_api::v1beta1::uniteddeployment::UnitedDeploymentStatus;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Outcome, Plan};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::*;

/// The objects in the apiserver.
pub(super) struct World {
    pub(super) united: Value,
    /// Kind and object.
    pub(super) workloads: Vec<(SubsetKind, Value)>,
    pub(super) revisions: Vec<Value>,
    /// Workload's name and pod.
    pub(super) pods: Vec<(String, Value)>,
    /// Subsets without nodes.
    pub(super) cut_off: BTreeSet<&'static str>,
    pub(super) now: Timestamp,
    /// Writes to workloads, for counting.
    pub(super) writes: usize,
    /// Pods that were created.
    pub(super) made: usize,
}

impl World {
    pub(super) fn new(field: &str, replicas: i32, topology: Value) -> Self {
        let template = json!({field: {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            }},
        }});
        let united = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "united", "generation": 1},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": template, "topology": topology,
            },
        });
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (cut_off, writes, made) = (BTreeSet::new(), 0, 0);
        Self {
            united,
            workloads: vec![],
            revisions: vec![],
            pods: vec![],
            cut_off,
            now,
            writes,
            made,
        }
    }

    pub(super) fn set(&mut self, pointer: &str, value: Value) {
        *self.united.pointer_mut(pointer).unwrap() = value;
        let generation = self.united["metadata"]["generation"].as_i64().unwrap();
        self.united["metadata"]["generation"] = json!(generation + 1);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let object = |object: &Value| serde_json::from_value(object.clone()).unwrap();
        let workloads = self.workloads.iter();
        let mut revisions: Vec<_> = self
            .revisions
            .iter()
            .map(|revision| {
                Arc::new(
                    serde_json::from_value::<berth_workload::update::revision::Revision>(
                        revision.clone(),
                    )
                    .unwrap(),
                )
            })
            .collect();
        berth_workload::update::revision::sort(&mut revisions);
        Snapshot {
            united: Arc::new(serde_json::from_value(self.united.clone()).unwrap()),
            workloads: workloads
                .map(|(kind, it)| SubsetWorkload {
                    kind: *kind,
                    object: Arc::new(object(it)),
                })
                .collect(),
            revisions,
            orphans: Vec::new(),
            unreadable: Vec::new(),
            pods: self
                .pods
                .iter()
                .map(|(_, pod)| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
                .collect(),
        }
    }

    /// Runs rounds and the workloads' controllers in turn, one second each, until nothing is
    /// written for a while.
    pub(super) fn rest(&mut self) {
        let mut idle = 0;
        for _ in 0..400 {
            idle = if self.round() { 0 } else { idle + 1 };
            self.run_workloads();
            self.now += SignedDuration::from_secs(1);
            if idle > 30 {
                return;
            }
        }
        panic!("no rest: {:#?}", self.plan(&self.snapshot()));
    }

    /// The plan of the present moment.
    pub(super) fn plan(&self, snapshot: &Snapshot) -> Plan {
        decide(snapshot, &Round::of(snapshot, self.now), self.now)
    }

    /// The workloads' controllers act, and a second passes.
    pub(super) fn rest_one_second(&mut self) {
        self.run_workloads();
        self.now += SignedDuration::from_secs(1);
    }

    /// One round whose status is not written.
    pub(super) fn round_without_status(&mut self) {
        for action in self.plan(&self.snapshot()).actions() {
            self.write(action);
        }
    }

    /// One round: whether it wrote anything.
    pub(super) fn round(&mut self) -> bool {
        let snapshot = self.snapshot();
        let round = Round::of(&snapshot, self.now);
        let plan = decide(&snapshot, &round, self.now);
        for action in plan.actions() {
            self.write(action);
        }
        let new = status(&snapshot, &round, &plan, &Outcome::default(), self.now);
        let changed = new.is_some() && new != snapshot.united.status;
        if let Some(new) = new {
            self.united["status"] = serde_json::to_value(new).unwrap();
        }
        changed || !Plan::is_idle(&plan)
    }

    fn write(&mut self, action: &Action) {
        match action {
            Action::CreateRevision { body } => {
                let mut body = body.value();
                body["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                self.revisions.push(body);
            }
            Action::RenumberRevision {
                target, revision, ..
            } => {
                let it = self
                    .revisions
                    .iter_mut()
                    .find(|it| it["metadata"]["name"] == target.name)
                    .unwrap();
                it["revision"] = json!(revision);
            }
            Action::DeleteRevision { target } => self
                .revisions
                .retain(|it| it["metadata"]["name"] != target.name),
            Action::Create { resource, body, .. } => {
                self.writes += 1;
                let kind = SubsetKind::ALL
                    .into_iter()
                    .find(|kind| kind.resource() == *resource)
                    .unwrap();
                let mut body = body.clone();
                body["metadata"]["uid"] =
                    json!(format!("uid-{}-{}", body["metadata"]["name"], self.now));
                body["metadata"]["generation"] = json!(1);
                self.workloads.push((kind, body));
            }
            Action::Patch {
                resource,
                target,
                patch,
            } => {
                self.writes += 1;
                let is_it = |(kind, it): &&mut (SubsetKind, Value)| {
                    kind.resource() == *resource && it["metadata"]["name"] == target.name
                };
                let (_, it) = self.workloads.iter_mut().find(is_it).unwrap();
                json_patch::merge(it, patch);
                it["metadata"]["generation"] =
                    json!(it["metadata"]["generation"].as_i64().unwrap() + 1);
            }
            Action::Delete { resource, target } => {
                self.writes += 1;
                self.workloads.retain(|(kind, it)| {
                    kind.resource() != *resource || it["metadata"]["name"] != target.name
                });
                self.pods.retain(|(workload, _)| *workload != target.name);
            }
            Action::PatchPod { target, patch } => {
                let (_, pod) = self
                    .pods
                    .iter_mut()
                    .find(|(_, pod)| pod["metadata"]["name"] == target.name)
                    .unwrap();
                for (key, value) in &patch.labels {
                    pod["metadata"]["labels"][key] = json!(value);
                }
            }
            Action::Confirm { .. } => {}
            Action::DeletePod { target } => self
                .pods
                .retain(|(_, pod)| pod["metadata"]["name"] != target.name),
            other => panic!("{other:?}"),
        }
    }

    /// Each workload brings its pods to its spec: old pods beyond the partition are replaced at
    /// once.
    fn run_workloads(&mut self) {
        for at in 0..self.workloads.len() {
            let (kind, it) = self.workloads[at].clone();
            let name = it["metadata"]["name"].as_str().unwrap().to_owned();
            let subset = it["metadata"]["labels"][SUBSET_NAME]
                .as_str()
                .unwrap()
                .to_owned();
            let replicas = usize::try_from(it["spec"]["replicas"].as_i64().unwrap()).unwrap();
            let partition = SubsetKind::partition(&it["spec"])
                .and_then(|p| usize::try_from(p).ok())
                .unwrap_or(0);
            let labels = &it["spec"]["template"]["metadata"]["labels"];
            let revision = |labels: &Value| labels[KRUISE_CONTROLLER_REVISION_HASH].clone();
            let is_old = |pod: &Value| revision(&pod["metadata"]["labels"]) != revision(labels);
            let old = self
                .pods
                .iter()
                .filter(|(of, pod)| *of == name && is_old(pod))
                .count();
            let mut surplus = old.saturating_sub(if kind == SubsetKind::Deployment {
                0
            } else {
                partition
            });
            self.pods.retain(|(of, pod)| {
                let goes = *of == name && is_old(pod) && surplus > 0;
                surplus -= usize::from(goes);
                !goes
            });
            while self.of(&name).count() < replicas {
                self.made += 1;
                let fits = !self.cut_off.contains(subset.as_str());
                self.pods.push((
                    name.clone(),
                    pod(&it, kind, self.made, labels, fits, self.now),
                ));
            }
            // Pods that wait for a node go first, then the youngest.
            while self.of(&name).count() > replicas {
                let waits = |pod: &Value| pod["status"]["phase"] == "Pending";
                let own = self
                    .pods
                    .iter()
                    .enumerate()
                    .filter(|(_, (of, _))| *of == name);
                let at = own
                    .max_by_key(|(at, (_, pod))| (waits(pod), *at))
                    .map(|(at, _)| at)
                    .unwrap();
                self.pods.remove(at);
            }
            let fits = !self.cut_off.contains(subset.as_str());
            for (_, pod) in self
                .pods
                .iter_mut()
                .filter(|(of, pod)| *of == name && pod["status"]["phase"] == "Pending")
            {
                if fits {
                    pod["spec"]["nodeName"] = json!("node");
                    pod["status"] = running(self.now);
                }
            }
            let ready = self
                .of(&name)
                .filter(|pod| pod["status"]["phase"] == "Running")
                .count();
            let generation = it["metadata"]["generation"].clone();
            self.workloads[at].1["status"] = json!({
                "observedGeneration": generation, "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
            });
        }
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.pods
            .iter()
            .filter(move |(of, _)| of == name)
            .map(|(_, pod)| pod)
    }

    /// Pods by subset, in the order of the spec.
    pub(super) fn by_subset(&self) -> Vec<usize> {
        let subsets = self.united["spec"]["topology"]["subsets"]
            .as_array()
            .unwrap()
            .iter();
        let is_of =
            |subset: &Value, pod: &Value| pod["metadata"]["labels"][SUBSET_NAME] == subset["name"];
        subsets
            .map(|subset| {
                self.pods
                    .iter()
                    .filter(|(_, pod)| is_of(subset, pod))
                    .count()
            })
            .collect()
    }

    pub(super) fn reserved(&self) -> usize {
        self.pods
            .iter()
            .filter(|(_, pod)| pod["metadata"]["labels"][RESERVED_POD] == "true")
            .count()
    }

    pub(super) fn status(&self) -> UnitedDeploymentStatus {
        serde_json::from_value(self.united["status"].clone()).unwrap()
    }
}

fn pod(
    workload: &Value,
    kind: SubsetKind,
    number: usize,
    labels: &Value,
    fits: bool,
    now: Timestamp,
) -> Value {
    let name = workload["metadata"]["name"].as_str().unwrap();
    let mut labels = labels.clone();
    let owner = if kind == SubsetKind::Deployment {
        labels["pod-template-hash"] = json!("abc");
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{name}-abc"), "uid": "rs", "controller": true})
    } else {
        let resource = kind.resource();
        json!({"apiVersion": resource.api_version(), "kind": resource.kind, "name": name, "uid": workload["metadata"]["uid"], "controller": true})
    };
    let pending = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]});
    let pod = json!({
        "metadata": {
            "name": format!("{name}-{number}"), "namespace": "default", "uid": format!("pod-{number}"), "resourceVersion": "1",
            "creationTimestamp": now.to_string(), "labels": labels, "ownerReferences": [owner],
        },
        "spec": {"nodeName": if fits { "node" } else { "" }, "containers": []},
        "status": if fits { running(now) } else { pending },
    });
    let _readable: Pod = serde_json::from_value(pod.clone()).unwrap();
    pod
}

fn running(now: Timestamp) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now.to_string()}]})
}
