//! A small world for tests: nodes, pods and a job as in the apiserver, and a controller that sees
//! them late, one event at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::{BroadcastJob, BroadcastJobStatus};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Failure, Outcome, Plan};
use berth_workload::update::podset::Phases;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Snapshot, decide, hides_its_end, mark, status, unrecorded};
use crate::model::apiserver::merge;

/// The grace period of pods, in seconds.
const GRACE: i64 = 30;

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) job: Option<Value>,
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) pods: BTreeMap<String, Value>,
    /// Events since a test last read them.
    pub(super) events: Vec<String>,
    /// Uids of nodes whose pod has ended.
    pub(super) ended: BTreeSet<String>,
    /// The failure with which the apiserver refuses creations.
    pub(super) refuses: Option<Failure>,
    /// The answer to the next write to the job's spec is lost.
    pub(super) loses_answer: bool,
    /// Events of pods that the controller has not seen: the name, and the new object.
    unseen: VecDeque<(String, Option<Value>)>,
    seen_pods: BTreeMap<String, Value>,
    seen_nodes: BTreeMap<String, Value>,
    seen_job: Option<Value>,
    gone: Vec<Arc<Pod>>,
    counter: u64,
}

impl World {
    /// Nodes `n0`, `n1`, …, and a job with these fields.
    pub(super) fn new(nodes: usize, spec: Value) -> Self {
        let mut job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob",
            "metadata": {"name": "job", "namespace": "default", "uid": "job-uid", "resourceVersion": "1"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "nodeSelector": {"use": "yes"},
                "containers": [{"name": "main", "image": "busybox"}]}}},
        });
        merge(&mut job["spec"], &spec);
        let mut world = Self {
            now: Timestamp::from_second(1_000_000).unwrap(),
            job: Some(job),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            events: Vec::new(),
            ended: BTreeSet::new(),
            refuses: None,
            loses_answer: false,
            unseen: VecDeque::new(),
            seen_pods: BTreeMap::new(),
            seen_nodes: BTreeMap::new(),
            seen_job: None,
            gone: Vec::new(),
            counter: 0,
        };
        (0..nodes).for_each(|n| world.join(&format!("n{n}")));
        world
    }

    pub(super) fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn join(&mut self, name: &str) {
        let uid = format!("{name}-{}", self.number());
        let node = json!({
            "metadata": {"name": name, "uid": uid, "labels": {"use": "yes"}, "creationTimestamp": self.now},
            "spec": {},
            "status": {"allocatable": {"cpu": "2", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.nodes.insert(name.to_owned(), node);
    }

    pub(super) fn edit_node(&mut self, name: &str, change: &Value) {
        merge(self.nodes.get_mut(name).unwrap(), change);
    }

    pub(super) fn edit_job(&mut self, change: &Value) {
        let version = self.number() + 1;
        if let Some(job) = &mut self.job {
            merge(job, change);
            job["metadata"]["resourceVersion"] = json!(version.to_string());
        }
    }

    pub(super) fn status(&self) -> BroadcastJobStatus {
        self.job
            .as_ref()
            .map(|job| read::<BroadcastJob>(job).status.unwrap_or_default())
            .unwrap_or_default()
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// The name of the pod for a node.
    pub(super) fn pod_of(&self, node: &str) -> String {
        mark::pod_name(
            "job",
            &mark::hash(self.nodes[node]["metadata"]["uid"].as_str().unwrap()),
        )
    }

    /// Changes or removes a pod.
    pub(super) fn set_pod(&mut self, name: &str, pod: Option<Value>) {
        match &pod {
            Some(pod) => drop(self.pods.insert(name.to_owned(), pod.clone())),
            None => drop(self.pods.remove(name)),
        }
        self.unseen.push_back((name.to_owned(), pod));
    }

    pub(super) fn edit_pod(&mut self, name: &str, change: &Value) {
        let mut pod = self.pods[name].clone();
        let was_over = is_over(&pod);
        merge(&mut pod, change);
        if !was_over && is_end(&pod) {
            self.note_end(name);
        }
        self.set_pod(name, Some(pod));
    }

    fn note_end(&mut self, pod: &str) {
        let hash = mark::in_name("job", pod).unwrap_or_default().to_owned();
        let uids = self
            .nodes
            .values()
            .map(|node| node["metadata"]["uid"].as_str().unwrap().to_owned());
        let uid = uids.into_iter().find(|uid| mark::hash(uid) == hash);
        self.ended.extend(uid);
    }

    /// A pod never runs again for a node in the status.
    fn note_records(&mut self) {
        let status = self.status();
        let records = mark::read(&status.ended_nodes);
        let uids = self
            .nodes
            .values()
            .map(|node| node["metadata"]["uid"].as_str().unwrap().to_owned());
        self.ended
            .extend(uids.filter(|uid| records.contains_key(&*mark::hash(uid))));
    }

    /// The scheduler and the kubelet start the pod.
    pub(super) fn start(&mut self, name: &str) {
        let pinned = self.pods[name]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let is_free = self.pods[name]["spec"]["nodeName"].is_null();
        if self.nodes.contains_key(&pinned) && is_free && !is_over(&self.pods[name]) {
            self.edit_pod(
                name,
                &json!({"spec": {"nodeName": pinned}, "status": {"phase": "Running"}}),
            );
        }
    }

    pub(super) fn finish(&mut self, name: &str, phase: &str) {
        let pod = &self.pods[name];
        if pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null() {
            self.edit_pod(name, &json!({"status": {"phase": phase}}));
        }
    }

    pub(super) fn disrupt(&mut self, name: &str, change: &Value) {
        if is_over(&self.pods[name]) {
            return;
        }
        let condition =
            json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
        self.edit_pod(name, &condition);
        self.edit_pod(name, change);
    }

    /// Deletes a pod as the apiserver does: a pod that has ended or has no node is gone at once.
    pub(super) fn delete_pod(&mut self, name: &str) {
        let pod = &self.pods[name];
        if is_over(pod) || pod["spec"]["nodeName"].is_null() {
            return self.set_pod(name, None);
        }
        if pod["metadata"]["deletionTimestamp"].is_null() {
            let until = self.now + SignedDuration::from_secs(GRACE);
            self.edit_pod(name, &json!({"metadata": {"deletionTimestamp": until}}));
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    pub(super) fn see_pods(&mut self, most: usize) {
        for _ in 0..most.min(self.unseen.len()) {
            let Some((name, now)) = self.unseen.pop_front() else {
                return;
            };
            let old = match &now {
                Some(now) => self.seen_pods.insert(name, now.clone()),
                None => self.seen_pods.remove(&name),
            };
            let (old, now) = (
                old.map(|old| Arc::new(read::<Pod>(&old))),
                now.map(|now| read::<Pod>(&now)),
            );
            self.gone
                .extend(old.filter(|old| hides_its_end(old, now.as_ref())));
        }
    }

    pub(super) fn see_nodes(&mut self) {
        self.seen_nodes = self.nodes.clone();
    }

    pub(super) fn see_job(&mut self) {
        self.seen_job = self.job.clone();
    }

    pub(super) fn see(&mut self) {
        self.see_pods(usize::MAX);
        self.see_nodes();
        self.see_job();
    }

    /// Another controller takes over: it sees the stored objects, and remembers nothing.
    pub(super) fn restart(&mut self) {
        self.see();
        self.gone.clear();
    }

    /// Whether a pod has ended and is gone without its node being in the status. A controller that
    /// restarts now cannot know that.
    pub(super) fn would_forget(&self) -> bool {
        let status = self.status();
        let records = mark::read(&status.ended_nodes);
        self.nodes
            .values()
            .map(|node| node["metadata"]["uid"].as_str().unwrap())
            .any(|uid| {
                let hash = mark::hash(uid);
                let pod = self.pods.get(&mark::pod_name("job", &hash));
                self.ended.contains(uid)
                    && !records.contains_key(&*hash)
                    && pod.is_none_or(|pod| !is_over(pod))
            })
    }

    pub(super) fn snapshot(&mut self) -> Option<Snapshot> {
        let job: Arc<BroadcastJob> = Arc::new(read(self.seen_job.as_ref()?));
        let nodes: Vec<Arc<Node>> = self
            .seen_nodes
            .values()
            .map(|node| Arc::new(read(node)))
            .collect();
        self.gone = unrecorded(&job, &nodes, std::mem::take(&mut self.gone));
        Some(Snapshot {
            pods: self
                .seen_pods
                .values()
                .map(|pod| Arc::new(read(pod)))
                .collect(),
            gone: self.gone.clone(),
            unreadable: Vec::new(),
            phases: Phases::default(),
            gates: Gates::default(),
            nodes,
            job,
        })
    }

    pub(super) fn plan(&mut self) -> Plan {
        self.see();
        self.snapshot()
            .map(|snapshot| decide(&snapshot, self.now))
            .unwrap_or_default()
    }

    /// One round, from the objects that the controller has seen. After so many writes the
    /// controller crashes, and writes no status. Returns the number of new pods.
    pub(super) fn round(&mut self, crash: Option<usize>) -> usize {
        let Some(snapshot) = self.snapshot() else {
            return 0;
        };
        let plan = decide(&snapshot, self.now);
        assert_eq!(plan.written_twice(), None, "{plan:?}");
        self.events
            .extend(plan.events.iter().map(|event| event.reason.to_owned()));
        let (mut outcome, mut created) = (Outcome::default(), 0);
        for (at, action) in plan.actions().enumerate() {
            if crash == Some(at) {
                return created;
            }
            match self.act(action) {
                Ok(is_new) => created += usize::from(is_new),
                Err(failure) => outcome.failures.push(*failure),
            }
        }
        if crash.is_some() {
            return created;
        }
        let new = status(&snapshot, &plan, &outcome, self.now);
        if self.job.is_some() && snapshot.job.status.as_ref() != Some(&new) {
            self.job.as_mut().unwrap()["status"] = json!(new);
            self.edit_job(&json!({}));
            self.note_records();
        }
        // The controller sees its own writes before the next round.
        self.see_pods(usize::MAX);
        if !outcome.failures.is_empty() || plan.actions().count() > 0 {
            self.see_job();
        }
        created
    }

    /// Whether a pod was created.
    fn act(&mut self, action: &Action) -> Result<bool, Box<Failure>> {
        match action {
            Action::CreatePod { body } => return self.create(body.value()),
            Action::DeletePod { target } => {
                let is_it = |pod: &Value| pod["metadata"]["uid"] == *target.uid;
                if self.pods.get(&target.name).is_some_and(is_it) {
                    self.delete_pod(&target.name);
                }
            }
            Action::Patch { target, patch, .. } => {
                let version = self
                    .job
                    .as_ref()
                    .map(|job| job["metadata"]["resourceVersion"].clone());
                if version
                    == target
                        .resource_version
                        .as_ref()
                        .map(|version| json!(version))
                {
                    self.edit_job(patch);
                }
                if std::mem::take(&mut self.loses_answer) {
                    return Err(Box::new(lost(action)));
                }
            }
            Action::Delete { .. } => self.job = None,
            Action::ValidateTemplate { .. } => {}
            other => panic!("{other:?}"),
        }
        Ok(false)
    }

    fn create(&mut self, mut pod: Value) -> Result<bool, Box<Failure>> {
        if let Some(refusal) = &self.refuses {
            let object = pod["metadata"]["name"].as_str().unwrap().to_owned();
            return Err(Box::new(Failure {
                object,
                ..refusal.clone()
            }));
        }
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        // A pod of the same owner exists: an answer was lost.
        if self.pods.contains_key(&name) {
            return Ok(false);
        }
        let hash = mark::in_name("job", &name).unwrap();
        assert!(
            !self.ended.iter().any(|uid| mark::hash(uid) == hash),
            "the job of a node is run twice: {name}"
        );
        let node = node_of(&pod);
        let others = self
            .pods
            .values()
            .filter(|other| !is_over(other) && node_of(other) == node);
        assert_eq!(others.count(), 0, "two pods on node {node}");
        pod["metadata"]["uid"] = json!(format!("pod-{}", self.number()));
        pod["metadata"]["creationTimestamp"] = json!(self.now);
        pod["status"] = json!({"phase": "Pending"});
        self.set_pod(&name, Some(pod));
        Ok(true)
    }

    /// Pods that run, or may run.
    pub(super) fn running(&self) -> usize {
        let may_run = |pod: &&Value| {
            let until = pod["metadata"]["deletionTimestamp"]
                .as_str()
                .map(|text| text.parse::<Timestamp>().unwrap());
            !is_over(pod) && until.is_none_or(|until| until > self.now)
        };
        self.pods.values().filter(may_run).count()
    }

    /// Rounds with all events delivered, until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..50 {
            let before = (self.job.clone(), self.pods.clone());
            self.see();
            self.round(None);
            if before == (self.job.clone(), self.pods.clone()) {
                return;
            }
        }
        panic!("it does not come to rest");
    }
}

fn node_of(pod: &Value) -> String {
    let pod: Pod = read(pod);
    pod.spec.pinned_to.unwrap_or_default().into()
}

fn is_over(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    )
}

/// Whether the pod has ended, and was not disrupted before.
fn is_end(pod: &Value) -> bool {
    let is_disrupted = pod["status"]["conditions"][0]["type"] == "DisruptionTarget";
    let is_leaving = !pod["metadata"]["deletionTimestamp"].is_null();
    is_over(pod) && (pod["status"]["phase"] == "Succeeded" || !is_disrupted && !is_leaving)
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// A failure for which it is unknown whether the write was done.
fn lost(action: &Action) -> Failure {
    Failure {
        write: action.write(),
        namespace: "default".to_owned(),
        object: "job".to_owned(),
        message: "no answer".to_owned(),
        code: 0,
        permanent: false,
        outdated: false,
        taken: false,
        infeasible: false,
    }
}
