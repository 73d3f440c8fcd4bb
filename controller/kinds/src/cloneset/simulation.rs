//! A small world for tests: an apiserver that applies plans, and kubelets that follow.
//!
//! Pods are JSON, patched as the apiserver patches, and decoded as the watch decodes them. A
//! kubelet runs only when a test calls it, so that tests reach every state between two writes.

mod foreign;
pub(super) mod owner;
mod pods;
pub(super) mod views;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::fields::template::PodTemplate;
use berth_api::names::annotation::RESTARTED_AT;
use berth_api::names::label::SPECIFIED_DELETE;
use berth_api::v1beta1::cloneset::{CloneSet, CloneSetStatus};
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::{Metadata, Pod, availability, priority};
use berth_workload::plan::{Action, Outcome, Plan};
use berth_workload::pod_owner::orphans;
use berth_workload::update::podset::adopt::Orphans;
use berth_workload::update::podset::{Phases, split_by_selector};
use berth_workload::update::revision::{self, Revision};
use foreign::Foreign;
use serde_json::{Value, json};
use writes::describe;

use super::{CloneSetOwner, Snapshot, decide, owner_key, status};
use crate::model::apiserver::set_condition;
use crate::model::kubelet::publish;
use crate::model::world::{self, Simulated};
use crate::model::{containers, health, resizing};

pub(super) type World = world::World<CloneSetOwner>;

/// The parts that only worlds of CloneSets have.
#[derive(Default)]
pub(crate) struct More {
    /// ImagePullJobs by name; only the test changes them.
    pub(super) jobs: BTreeMap<String, Value>,
    /// The NodeImage of the one node, without the daemon's answers about containers.
    pub(super) node: Value,
    /// Whether daemons report what containers were created from.
    pub(super) daemons: bool,
    /// Whether every write of a step is recorded.
    pub(super) traced: bool,
    /// The writes of the last step, each with the state after it.
    pub(super) trace: Vec<(String, Tally)>,
    /// Every image serves, regardless of its name.
    mended: bool,
    /// Whether a deleted pod stays until its kubelet has ended it, and a released pod no longer
    /// belongs to this world.
    pub(super) lingers: bool,
    /// The answer to a resize: empty if it is done, `Deferred` or `Infeasible` by kubelets,
    /// `NodeCapacity` by the apiserver, or any other text for the refusal of a webhook.
    pub(super) refuses: &'static str,
    /// Whether a container becomes ready only at the next sync of its kubelet.
    pub(super) slow: bool,
    barriers: BTreeMap<String, Value>,
    /// The objects of another owner.
    foreign: Foreign,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    /// Pods that are not being deleted.
    pub(super) pods: usize,
    pub(super) available: usize,
    pub(super) old: usize,
    /// Old pods with a request for deletion.
    pub(super) to_delete: usize,
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// How many pods the partition keeps old.
pub(super) fn partition(set: &CloneSet) -> usize {
    let rolling = set.spec.update_strategy.rolling_update.as_ref().unwrap();
    let replicas = usize::try_from(set.spec.replicas.unwrap()).unwrap();
    berth_workload::objects::intstr::partition(rolling.partition.as_ref(), replicas).unwrap()
}

impl Simulated for CloneSetOwner {
    type More = More;

    fn set_status(set: &mut CloneSet, status: Option<CloneSetStatus>) {
        set.status = status;
    }

    fn snapshot(world: &World) -> Snapshot {
        let node_images = if world.daemons {
            world.nodes()
        } else {
            BTreeMap::new()
        };
        let (pods, strays) = split_by_selector(
            &world.set.spec.selector,
            world.foreign.pods(&world.set, world.all_pods()),
        );
        let revisions = world
            .foreign
            .revisions(&world.set, world.decoded_revisions());
        let claims = world.foreign.claims(&world.set, world.claims.seen());
        let orphans = orphans::<CloneSetOwner>(
            &world.set,
            Orphans {
                pods: world.all_pods(),
                claims: world.claims.seen(),
                revisions: world.decoded_revisions(),
            },
        );
        Snapshot {
            pods,
            strays,
            own: CloneSetOwner { claims },
            orphans,
            revisions,
            node_images,
            ..world.beside()
        }
    }

    fn write(world: &mut World, action: &Action) {
        world.write(action);
    }

    fn execute(world: &mut World, plan: &Plan) -> Outcome {
        world.execute(plan, usize::MAX)
    }

    fn schedule(world: &mut World) {
        world.schedule();
    }

    fn run_nodes(world: &mut World) {
        world.run_daemons();
        world.run_kubelets();
    }
}

impl World {
    pub(super) fn new(replicas: i32, template: Value, update_strategy: Value) -> Self {
        let set = json!({
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 1},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": template, "updateStrategy": update_strategy,
            },
        });
        let more = More {
            node: json!({"metadata": {"name": "node"}, "spec": {}}),
            daemons: true,
            ..More::default()
        };
        let mut world = Self::with(set, more);
        world.foreign = Foreign::of(&world.set);
        world
    }

    /// A world that another controller left behind, at the time 1,000,000 s.
    pub(super) fn of(set: Value, revisions: Vec<Value>, pods: Vec<Value>) -> Self {
        let named = |objects: Vec<Value>| -> BTreeMap<String, Value> {
            let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
            objects
                .into_iter()
                .map(|object| (name(&object), object))
                .collect()
        };
        let mut world = Self::new(0, Value::Null, json!({}));
        world.set = Arc::new(serde_json::from_value(set).unwrap());
        world.foreign = Foreign::of(&world.set);
        (world.pods, world.revisions) = (named(pods), named(revisions));
        world
    }

    pub(super) fn settled(replicas: i32, template: Value, update_strategy: Value) -> Self {
        let mut world = Self::new(replicas, template, update_strategy);
        world.settle();
        world
    }

    /// The snapshot without pods, claims, revisions and nodes.
    fn beside(&self) -> Snapshot {
        Snapshot {
            set: self.set.clone(),
            pods: Vec::new(),
            strays: Vec::new(),
            own: CloneSetOwner::default(),
            orphans: Orphans::default(),
            revisions: Vec::new(),
            node_images: BTreeMap::new(),
            jobs: Some(
                self.jobs
                    .values()
                    .map(|job| Arc::new(serde_json::from_value(job.clone()).unwrap()))
                    .collect(),
            ),
            unreadable: Vec::new(),
            ended: self.ended,
            overlapping: Vec::new(),
            nodes: BTreeMap::new(),
            phases: Phases::default(),
            gates: self.gates,
            resize: self.resize,
            seed: self.counter,
        }
    }

    /// The daemon's report: every container with what it was created from.
    fn nodes(&self) -> BTreeMap<Box<str>, Arc<NodeImage>> {
        [("node".into(), self.node_image(&self.node))].into()
    }

    /// The daemons stop the containers that were created with other variables than wanted.
    pub(super) fn run_daemons(&mut self) {
        if self.daemons {
            self.pods.values_mut().for_each(containers::stop);
        }
    }

    /// The first writes of a plan; then the controller dies, or it is done. Garbage is collected.
    pub(super) fn execute(&mut self, plan: &Plan, writes: usize) -> Outcome {
        let (mut outcome, mut left) = (Outcome::default(), writes);
        for step in plan.stages.iter().flat_map(|stage| &stage.steps) {
            for action in step.actions.iter().take(left) {
                left -= 1;
                if let Some(failure) = resizing::refusal(action, self.refuses) {
                    outcome.failures.push(failure);
                    break;
                }
                self.write(action);
                if self.traced {
                    let left = (describe(action), self.tally());
                    self.trace.push(left);
                }
            }
        }
        self.collect_garbage();
        outcome
    }

    /// Deletes objects without an owner.
    pub(super) fn collect_garbage(&mut self) {
        self.claims.collect_garbage(&self.pods);
    }

    fn schedule(&mut self) {
        for pod in self.pods.values_mut() {
            pod["spec"]["nodeName"] = json!("node");
        }
    }

    pub(super) fn run_kubelets(&mut self) {
        // From the last pod on, because a pod that ends shifts the pods after it.
        for at in (0..self.pods.len()).rev() {
            self.run_kubelet(at);
        }
    }

    /// One sync of the kubelet for the pod at this place, if there is one.
    pub(super) fn run_kubelet(&mut self, at: usize) {
        let Some(name) = self.pods.keys().nth(at).cloned() else {
            return;
        };
        let (id, now, mended, refuses) = (self.next(), self.now, self.mended, self.refuses);
        let Some(pod) = self
            .pods
            .get_mut(&name)
            .filter(|pod| pod["spec"]["nodeName"].is_string())
        else {
            return;
        };
        if self.more.lingers && !pod["metadata"]["deletionTimestamp"].is_null() {
            pod["ended"] = json!(true);
            return self.reap();
        }
        if matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        ) {
            return;
        }
        let barrier = self.more.barriers.get(&priority::barrier(&name));
        containers::sync(pod, id, barrier, self.more.slow);
        if resizing::sync(pod, refuses) {
            containers::crash(pod, id);
            resizing::sync(pod, refuses);
        }
        let serves = self.more.slow || health::probe(pod, mended);
        pod["status"]["phase"] = json!("Running");
        publish(pod, serves, now);
    }

    /// The kubelet begins a sync: it reports that it has seen the spec, and has not reached the
    /// containers yet. If the sync stops there, the readiness is that of the present containers.
    pub(super) fn acknowledge(&mut self, at: usize) {
        let (now, mended) = (self.now, self.mended);
        let Some(pod) = self
            .pods
            .values_mut()
            .nth(at)
            .filter(|pod| pod["created"].is_object())
        else {
            return;
        };
        let serves = health::probe(pod, mended);
        publish(pod, serves, now);
    }

    /// The kubelet has not synced the pod since, and repeats its last report: that the pod is
    /// Ready.
    pub(super) fn repeat_ready(&mut self, at: usize) {
        let now = self.now;
        if let Some(pod) = self.pods.values_mut().nth(at) {
            set_condition(
                pod,
                json!({"type": "Ready", "status": "True", "lastTransitionTime": now}),
            );
        }
    }

    /// The container dies and is started again from what it was created from; the kubelet reports
    /// no more than that.
    pub(super) fn crash(&mut self, at: usize) {
        let id = self.next();
        if let Some(pod) = self.pods.values_mut().nth(at) {
            containers::crash(pod, id);
        }
    }

    /// The pod's container fails until it is created from another image.
    pub(super) fn break_pod(&mut self, at: usize) {
        let now = self.now;
        let Some(pod) = self.pods.values_mut().nth(at) else {
            return;
        };
        if pod["created"].is_object() {
            health::break_container(pod);
            set_condition(
                pod,
                json!({"type": "Ready", "status": "False", "lastTransitionTime": now}),
            );
        }
    }

    /// The pod ends in this phase, for this reason.
    pub(super) fn end(&mut self, name: &str, phase: &str, reason: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod["status"]["phase"] = json!(phase);
            pod["status"]["reason"] = json!(reason);
            set_condition(
                pod,
                json!({"type": "Ready", "status": "False", "lastTransitionTime": self.now}),
            );
        }
    }

    /// From now on nothing fails.
    pub(super) fn mend(&mut self) {
        self.mended = true;
    }

    /// A user requests the pod's deletion.
    pub(super) fn ask_to_go(&mut self, at: usize) {
        self.label(at, SPECIFIED_DELETE, "true");
    }

    pub(super) fn label(&mut self, at: usize, key: &str, value: &str) {
        if let Some(pod) = self.pods.values_mut().nth(at) {
            pod["metadata"]["labels"][key] = json!(value);
        }
    }

    /// Every pod that must run this image is stuck with a container that waits for the image.
    pub(super) fn refuse_image(&mut self, image: &str) {
        for pod in self
            .pods
            .values_mut()
            .filter(|pod| pod["spec"]["containers"][0]["image"] == image)
        {
            pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff"}});
        }
    }

    pub(super) fn pods(&self) -> Vec<Arc<Pod>> {
        self.all_pods()
    }

    pub(super) fn set_template(&mut self, template: Value) {
        Arc::make_mut(&mut self.set).spec.template = PodTemplate::from(&template);
    }

    pub(super) fn edit_template(&mut self, edit: impl FnOnce(&mut Value)) {
        let mut template = self.set.spec.template.value();
        edit(&mut template);
        self.set_template(template);
    }

    pub(super) fn edit_rolling_update(&mut self, field: &str, value: Value) {
        let strategy = &mut Arc::make_mut(&mut self.set).spec.update_strategy;
        let mut json = serde_json::to_value(&*strategy).unwrap();
        json["rollingUpdate"][field] = value;
        *strategy = serde_json::from_value(json).unwrap();
    }

    pub(super) fn partition(&self) -> usize {
        partition(&self.set)
    }

    pub(super) fn replicas(&self) -> usize {
        usize::try_from(self.set.spec.replicas.unwrap()).unwrap()
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally_of(&self.pods(), &self.decoded_revisions(), &self.set)
    }

    /// Counts pods. `set` determines which of them are old.
    fn tally_of(&self, pods: &[Arc<Pod>], revisions: &[Arc<Revision>], set: &CloneSet) -> Tally {
        let mut pods = split_by_selector(&set.spec.selector, pods.to_vec()).0;
        pods.retain(|pod| pod.metadata.controller().is_some());
        let available = |pod: &&Arc<Pod>| availability(pod, 0, self.now).is_available();
        let template = &set.spec.template.value();
        let updated = match revision::recognise(template, revisions) {
            revision::Recognised::Newest(r) | revision::Recognised::Older(r, _) => {
                r.metadata.name.to_string()
            }
            revision::Recognised::New(_) => String::new(),
        };
        let is_old = |pod: &&Arc<Pod>| {
            !revision::same(
                pod.metadata
                    .label(revision::REVISION_LABEL)
                    .unwrap_or_default(),
                &updated,
            )
        };
        let is_to_delete =
            |pod: &&Arc<Pod>| is_old(pod) && pod.metadata.label(SPECIFIED_DELETE).is_some();
        Tally {
            to_delete: pods.iter().filter(is_to_delete).count(),
            pods: pods.iter().filter(|pod| pod.is_active()).count(),
            available: pods.iter().filter(available).count(),
            old: pods
                .iter()
                .filter(|pod| !pod.has_finished())
                .filter(is_old)
                .count(),
        }
    }

    fn each<T>(&self, read: impl Fn(&Value) -> T) -> Vec<T> {
        self.pods.values().map(read).collect()
    }

    pub(super) fn identities(&self) -> Vec<String> {
        self.each(|pod| pod["metadata"]["uid"].to_string())
    }

    pub(super) fn containers(&self) -> Vec<String> {
        self.each(|pod| pod["status"]["containerStatuses"][0]["containerID"].to_string())
    }

    pub(super) fn images(&self) -> Vec<String> {
        self.each(|pod| {
            pod["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    }

    pub(super) fn created_from(&self) -> Vec<String> {
        self.each(|pod| {
            pod["created"]["main"]["image"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    }

    pub(super) fn template_image(&self) -> String {
        self.set.spec.template.value()["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The environment that each pod's container of this name was created with.
    pub(super) fn environments(&self, container: &str) -> Vec<Value> {
        self.each(|pod| pod["created"][container]["env"].clone())
    }

    /// For each pod, the restart time that each of its containers was created with; null if there
    /// was none.
    pub(super) fn restarted_at(&self) -> Vec<Vec<Value>> {
        let of = |pod: &Value| {
            pod["created"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(_, c)| c[RESTARTED_AT].clone())
                .collect()
        };
        self.each(of)
    }

    /// How often each pod's container of this name was restarted.
    pub(super) fn restarts(&self, container: &str) -> Vec<u64> {
        self.each(|pod| {
            let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
            statuses
                .iter()
                .find(|status| status["name"] == container)
                .unwrap()["restartCount"]
                .as_u64()
                .unwrap()
        })
    }

    pub(super) fn annotations(&self, key: &str) -> Vec<Value> {
        self.each(|pod| pod["metadata"]["annotations"][key].clone())
    }

    /// The revisions with this label, by name.
    pub(super) fn revision_labels(&self, label: &str) -> Vec<String> {
        let with = |revision: &&Value| revision["metadata"]["labels"][label].is_string();
        self.revisions
            .values()
            .filter(with)
            .map(|r| r["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) fn revisions(&self) -> usize {
        self.revisions.len()
    }
}
