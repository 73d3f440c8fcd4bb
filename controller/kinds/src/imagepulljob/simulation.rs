//! A small world for tests: an apiserver that applies plans, with its preconditions, and daemons
//! that pull when a test runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::{ImagePullJob, ImagePullJobStatus};
use berth_api::v1beta1::nodeimage::{ImagePullPhase, ImageTagStatus};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::node::image::entry::{self, Standing};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{IMAGE_PULL_JOBS, NODE_IMAGES};
use berth_workload::plan::{Action, Failure, Outcome, Plan, Target};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Snapshot, decide, status};
use crate::model::apiserver::merge;
use crate::nodeimage;

/// The behaviour of a node's daemon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Daemon {
    Pulls,
    Fails,
    Silent,
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) gates: Gates,
    pub(super) daemons: BTreeMap<String, Daemon>,
    pub(super) pods: Vec<Arc<Pod>>,
    /// NodeImages that cannot be read.
    pub(super) unreadable: Vec<String>,
    /// Events since a test last read them.
    pub(super) events: Vec<String>,
    /// By node, the NodeImage in the apiserver, and as the controller reads it.
    nodes: BTreeMap<String, (Value, Arc<NodeImage>)>,
    jobs: BTreeMap<String, Value>,
    counter: u64,
}

impl World {
    /// Nodes `n0`, `n1`, …, whose daemons pull.
    pub(super) fn new(nodes: usize) -> Self {
        let mut world = Self {
            now: Timestamp::from_second(1_000_000).unwrap(),
            gates: Gates::default().with(Gate::ImagePullJob, true),
            daemons: BTreeMap::new(),
            pods: Vec::new(),
            unreadable: Vec::new(),
            events: Vec::new(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            counter: 0,
        };
        for n in 0..nodes {
            world.join(&format!("n{n}"), json!({"number": n.to_string()}));
        }
        world
    }

    fn stamp(&mut self, object: &mut Value) {
        self.counter += 1;
        object["metadata"]["resourceVersion"] = json!(self.counter.to_string());
    }

    pub(super) fn join(&mut self, name: &str, labels: Value) {
        let node = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
            "metadata": {"name": name, "uid": format!("{name}-{}", self.counter), "labels": labels},
            "spec": {},
        });
        self.store_node(name, node);
        self.daemons.entry(name.to_owned()).or_insert(Daemon::Pulls);
    }

    pub(super) fn drop_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// A job that pulls `app:1`, with these other fields.
    pub(super) fn create(&mut self, name: &str, spec: &Value) {
        let mut job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
            "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-{}", self.counter), "generation": 1},
            "spec": {"image": "app:1"},
        });
        merge(&mut job["spec"], spec);
        self.stamp(&mut job);
        self.jobs.insert(name.to_owned(), job);
    }

    pub(super) fn edit(&mut self, name: &str, spec: &Value) {
        self.edit_job(name, |job| {
            merge(&mut job["spec"], spec);
            job["metadata"]["generation"] =
                json!(job["metadata"]["generation"].as_i64().unwrap() + 1);
        });
    }

    pub(super) fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut node = self.nodes[name].0.clone();
        edit(&mut node);
        self.store_node(name, node);
    }

    fn store_node(&mut self, name: &str, mut node: Value) {
        self.stamp(&mut node);
        let decoded: NodeImage = serde_json::from_value(node.clone()).unwrap();
        let given = node["spec"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, part)| **part != json!({}));
        let given: serde_json::Map<_, _> = given
            .map(|(field, part)| (field.clone(), part.clone()))
            .collect();
        assert_eq!(
            json!(decoded.spec),
            json!(given),
            "nothing that a NodeImage does not have"
        );
        self.nodes
            .insert(name.to_owned(), (node, Arc::new(decoded)));
    }

    fn edit_job(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let Some(mut job) = self.jobs.get(name).cloned() else {
            return;
        };
        edit(&mut job);
        self.stamp(&mut job);
        self.jobs.insert(name.to_owned(), job);
    }

    /// Requests the deletion, as kubectl does.
    pub(super) fn delete(&mut self, name: &str) {
        let deleted = Time(self.now);
        self.edit_job(name, |job| {
            job["metadata"]["deletionTimestamp"] = json!(deleted)
        });
        self.bury();
    }

    /// Removes jobs that are being deleted and have no finalizers.
    fn bury(&mut self) {
        let held = |job: &Value| {
            job["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|list| !list.is_empty())
        };
        self.jobs
            .retain(|_, job| job["metadata"]["deletionTimestamp"].is_null() || held(job));
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.jobs.contains_key(name)
    }

    pub(super) fn job(&self, name: &str) -> Arc<ImagePullJob> {
        Arc::new(serde_json::from_value(self.jobs[name].clone()).unwrap())
    }

    pub(super) fn status(&self, name: &str) -> ImagePullJobStatus {
        self.job(name).status.clone().unwrap_or_default()
    }

    pub(super) fn node(&self, name: &str) -> Arc<NodeImage> {
        self.nodes[name].1.clone()
    }

    pub(super) fn snapshot(&self, name: &str) -> Snapshot {
        let node_images = self
            .nodes
            .keys()
            .rev()
            .map(|node| self.node(node))
            .collect();
        let job = self.job(name);
        let going = self
            .jobs
            .values()
            .filter(|job| !job["metadata"]["deletionTimestamp"].is_null());
        let leaving = match job.metadata.deletion_timestamp {
            Some(_) => going
                .filter_map(|job| job["metadata"]["uid"].as_str().map(str::to_owned))
                .collect(),
            None => BTreeSet::new(),
        };
        let (pods, unreadable) = (self.pods.clone(), self.unreadable.clone());
        Snapshot {
            job,
            node_images,
            unreadable,
            pods,
            leaving,
            gates: self.gates,
        }
    }

    pub(super) fn plan(&self, name: &str) -> Plan {
        decide(&self.snapshot(name), self.now)
    }

    /// One round of a job, as the controller does it.
    pub(super) fn step(&mut self, name: &str) -> Plan {
        if !self.exists(name) {
            return Plan::default();
        }
        let snapshot = self.snapshot(name);
        self.act(&snapshot)
    }

    /// Acts on a snapshot, which may be outdated.
    pub(super) fn act(&mut self, snapshot: &Snapshot) -> Plan {
        let plan = decide(snapshot, self.now);
        let outcome = self.execute(&plan);
        let status = json!(status(snapshot, &plan, &outcome, self.now));
        let name = snapshot.job.metadata.name.clone().unwrap();
        if self
            .jobs
            .get(&name)
            .is_some_and(|job| job["status"] != status)
        {
            self.edit_job(&name, |job| job["status"] = status);
        }
        self.bury();
        self.events.extend(
            plan.events
                .iter()
                .map(|event| format!("{}: {}", event.reason, event.message)),
        );
        plan
    }

    /// One round of every NodeImage.
    pub(super) fn tend_nodes(&mut self) {
        for name in self.names() {
            let image = self.node(&name);
            let jobs: Vec<_> = image::owners(&image)
                .into_iter()
                .filter(|(_, job)| self.jobs.contains_key(*job))
                .map(|(_, job)| self.job(job))
                .collect();
            let node: Node = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": self.nodes[&name].0["metadata"]["labels"]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap();
            let snapshot = nodeimage::Snapshot {
                node: Some(Arc::new(node)),
                image: Some(image),
                pods: Vec::new(),
                name,
                jobs,
                requested: Vec::new(),
                unreadable_jobs: Vec::new(),
                join: None,
            };
            let plan = nodeimage::decide(&snapshot, self.now);
            let outcome = self.execute(&plan);
            assert_eq!(outcome, Outcome::default());
        }
    }

    fn execute(&mut self, plan: &Plan) -> Outcome {
        let actions = plan.actions();
        let patched = actions.filter_map(|action| match action {
            Action::Patch {
                resource: NODE_IMAGES,
                target,
                ..
            } => Some(&target.name),
            _ => None,
        });
        let (count, names) = patched.fold((0, BTreeSet::new()), |(count, mut names), name| {
            names.insert(name);
            (count + 1, names)
        });
        assert_eq!(
            count,
            names.len(),
            "of two patches of one version the second fails"
        );
        let mut outcome = Outcome::default();
        for stage in &plan.stages {
            let before = outcome.failures.len();
            for action in stage.steps.iter().flat_map(|step| &step.actions) {
                if let Err(failure) = self.write(action) {
                    outcome.failures.push(failure);
                }
            }
            if stage.required && outcome.failures.len() > before {
                break;
            }
        }
        outcome
    }

    #[allow(clippy::result_large_err, reason = "failures are few")]
    fn write(&mut self, action: &Action) -> Result<(), Failure> {
        let refuse = |target: &Target, code| {
            let message = format!("{code}");
            Err(Failure {
                write: action.write(),
                namespace: target.namespace.clone(),
                object: target.name.clone(),
                message,
                code,
                permanent: false,
                outdated: code == 409,
                taken: false,
                infeasible: false,
            })
        };
        let (mut object, target, patch) = match action {
            Action::Patch {
                resource: NODE_IMAGES,
                target,
                patch,
            } => (
                self.nodes.get(&target.name).map(|(node, _)| node.clone()),
                target,
                patch,
            ),
            Action::Patch {
                resource: IMAGE_PULL_JOBS,
                target,
                patch,
            } => (self.jobs.get(&target.name).cloned(), target, patch),
            Action::Delete {
                resource: IMAGE_PULL_JOBS,
                target,
            } => {
                self.delete(&target.name);
                return Ok(());
            }
            other => panic!("unexpected {other:?}"),
        };
        let Some(object) = &mut object else {
            return refuse(target, 404);
        };
        let version = target.resource_version.as_ref().unwrap();
        let metadata = &object["metadata"];
        if metadata["uid"] != json!(target.uid) || metadata["resourceVersion"] != json!(version) {
            return refuse(target, 409);
        }
        merge(object, patch);
        if matches!(
            action,
            Action::Patch {
                resource: NODE_IMAGES,
                ..
            }
        ) {
            self.store_node(&target.name, object.take());
        } else {
            self.stamp(object);
            self.jobs.insert(target.name.clone(), object.take());
        }
        Ok(())
    }

    /// One sync of a node's daemon: it begins pulls that it has not seen, and finishes those that
    /// it has begun.
    pub(super) fn run_daemon(&mut self, name: &str) {
        if self.daemons[name] == Daemon::Silent {
            return;
        }
        let node = self.node(name);
        let mut status = node.status.clone().unwrap_or_default();
        status.image_statuses.clear();
        for (image, spec) in &node.spec.images {
            let pulls = spec
                .tags
                .iter()
                .map(|entry| self.pull(name, entry::status(&node, image, entry), entry));
            status.image_statuses.entry(image.clone()).or_default().tags = pulls.collect();
        }
        if node.status.as_ref() != Some(&status) {
            self.edit_node(name, |node| node["status"] = json!(status));
        }
    }

    fn pull(
        &self,
        name: &str,
        before: Option<&ImageTagStatus>,
        entry: &berth_api::v1beta1::nodeimage::ImageTagSpec,
    ) -> ImageTagStatus {
        let mut status = before.cloned().unwrap_or_else(|| ImageTagStatus {
            tag: entry.tag.clone(),
            version: entry.version,
            start_time: Some(Time(self.now)),
            ..ImageTagStatus::default()
        });
        status.phase = match (before.map(|b| b.phase), self.daemons[name]) {
            (None, _) => ImagePullPhase::Pulling,
            (Some(ImagePullPhase::Pulling), Daemon::Fails) => ImagePullPhase::Failed,
            (Some(ImagePullPhase::Pulling), _) => ImagePullPhase::Succeeded,
            (Some(phase), _) => phase,
        };
        let over = matches!(
            status.phase,
            ImagePullPhase::Succeeded | ImagePullPhase::Failed
        );
        if over && status.completion_time.is_none() {
            status.completion_time = Some(Time(self.now));
            status.message = if status.phase == ImagePullPhase::Failed {
                "no such image".into()
            } else {
                String::new()
            };
        }
        status
    }

    pub(super) fn run_daemons(&mut self) {
        for name in self.names() {
            self.run_daemon(&name);
        }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Runs everything until all jobs rest or `rounds` are over.
    pub(super) fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for job in self.jobs.keys().cloned().collect::<Vec<_>>() {
                self.step(&job);
            }
            self.run_daemons();
            self.tend_nodes();
            self.pass(1);
        }
    }

    /// Nodes with an entry of the job that are not done and not given up.
    pub(super) fn active(&self, name: &str) -> usize {
        let uid = self.jobs[name]["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned();
        let is_active = |node: &NodeImage| {
            let entries = node
                .spec
                .images
                .iter()
                .flat_map(|(image, spec)| spec.tags.iter().map(move |tag| (image, tag)));
            let mut standings = entries
                .map(|(image, entry)| entry::standing(node, image, &entry.tag, &uid, self.now));
            standings.any(|standing| matches!(standing, Standing::Active { .. }))
        };
        self.nodes
            .keys()
            .filter(|node| is_active(&self.node(node)))
            .count()
    }

    /// `node image:tag version` of every entry.
    pub(super) fn entries(&self) -> Vec<String> {
        let mut entries = Vec::new();
        for name in self.nodes.keys() {
            for (image, spec) in &self.node(name).spec.images {
                entries.extend(
                    spec.tags
                        .iter()
                        .map(|tag| format!("{name} {image}:{} {}", tag.tag, tag.version)),
                );
            }
        }
        entries
    }
}
