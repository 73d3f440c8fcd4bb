//! A small world for tests of owners of pods: an apiserver that applies plans, and nodes that
//! follow when a test runs them.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use berth_api::v1beta1::nodeimage::InspectedPod;
use berth_workload::blocked;
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Outcome, Plan};
use berth_workload::pod_owner::decide::decide;
use berth_workload::pod_owner::status::status;
use berth_workload::pod_owner::{PodOwner, Snapshot, orphans};
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::podset::adopt::Orphans;
use berth_workload::update::podset::{Phases, split_by_selector};
use berth_workload::update::revision::{self, Revision};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::apiserver::{self, Objects};
use super::claims::Claims;
use super::containers;

/// An owner of pods that has a small world.
pub(crate) trait Simulated: PodOwner<Object: DeserializeOwned, Status: Serialize> {
    /// The parts that only worlds of this kind have.
    type More;

    /// Writes the status.
    fn set_status(set: &mut Self::Object, status: Option<Self::Status>);

    /// The objects that the controller sees.
    fn snapshot(world: &World<Self>) -> Snapshot<Self>;

    /// One write.
    fn write(world: &mut World<Self>, action: &Action);

    /// All writes of a plan.
    fn execute(world: &mut World<Self>, plan: &Plan) -> Outcome {
        plan.actions().for_each(|action| Self::write(world, action));
        world.claims.collect_garbage(&world.pods);
        Outcome::default()
    }

    /// The scheduler's work after a step.
    fn schedule(_: &mut World<Self>) {}

    /// One sync of each daemon and each kubelet.
    fn run_nodes(world: &mut World<Self>);
}

/// The stored objects.
pub(crate) struct World<K: Simulated> {
    pub(crate) set: Arc<K::Object>,
    pub(crate) gates: Gates,
    /// Whether resources may change in place.
    pub(crate) resize: Ability,
    pub(crate) pods: Objects,
    pub(crate) claims: Claims,
    pub(crate) revisions: Objects,
    /// The controller's records of ended pods.
    pub(crate) ended: K::Ended,
    pub(crate) now: Timestamp,
    pub(crate) counter: u64,
    pub(crate) last: Plan,
    /// The failures of the last plan.
    pub(crate) outcome: Outcome,
    pub(crate) more: K::More,
}

impl<K: Simulated> Deref for World<K> {
    type Target = K::More;

    fn deref(&self) -> &K::More {
        &self.more
    }
}

impl<K: Simulated> DerefMut for World<K> {
    fn deref_mut(&mut self) -> &mut K::More {
        &mut self.more
    }
}

impl<K: Simulated> World<K> {
    /// A world with nothing but the set, at the time 1,000,000 s.
    pub(crate) fn with(set: Value, more: K::More) -> Self {
        Self {
            set: Arc::new(serde_json::from_value(set).unwrap()),
            gates: Gates::default(),
            resize: Ability::Off,
            pods: Objects::new(),
            claims: Claims::default(),
            revisions: Objects::new(),
            ended: K::Ended::default(),
            now: Timestamp::from_second(1_000_000).unwrap(),
            counter: 0,
            last: Plan::default(),
            outcome: Outcome::default(),
            more,
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// All pods, as they are stored.
    pub(crate) fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.pods
            .values()
            .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
            .collect()
    }

    pub(crate) fn decoded_revisions(&self) -> Vec<Arc<Revision>> {
        let decode = |value: &Value| -> Arc<Revision> {
            Arc::new(serde_json::from_value(value.clone()).unwrap())
        };
        let mut revisions: Vec<_> = self.revisions.values().map(decode).collect();
        revision::sort(&mut revisions);
        revisions
    }

    /// The node's NodeImage, with the daemon's report of every container and what it was created
    /// from.
    pub(crate) fn node_image(&self, node: &Value) -> Arc<NodeImage> {
        let mut node: NodeImage = serde_json::from_value(node.clone()).unwrap();
        let inspect = |pod: &Value| InspectedPod {
            uid: pod["metadata"]["uid"].as_str().unwrap().to_owned(),
            containers: containers::inspected(pod),
            observed_at: None,
        };
        node.status.get_or_insert_default().inspected_pods =
            self.pods.values().map(inspect).collect();
        Arc::new(node)
    }

    /// The objects as the controller reads them. `own` gives the parts of this kind from its pods,
    /// strays, and pods of others.
    pub(crate) fn seen(
        &self,
        own: impl FnOnce(&mut Vec<Arc<Pod>>, &mut Vec<Arc<Pod>>, &[Arc<Pod>]) -> K,
    ) -> Snapshot<K> {
        let workload = K::workload(&self.set, self.gates);
        let is_owned = |pod: &Arc<Pod>| {
            let owner = pod.metadata.controller();
            owner.is_some_and(|owner| Some(&*owner.uid) == workload.metadata.uid.as_deref())
        };
        let (owned, others): (Vec<_>, Vec<_>) = self.all_pods().into_iter().partition(is_owned);
        let (mut pods, mut strays) = split_by_selector(workload.selector, owned);
        let own = own(&mut pods, &mut strays, &others);
        let of_set = |revision: &Arc<Revision>| revision.metadata.controller().is_some();
        let (revisions, orphaned): (Vec<_>, Vec<_>) =
            self.decoded_revisions().into_iter().partition(of_set);
        let of_nobody = Orphans {
            pods: others,
            claims: Vec::new(),
            revisions: orphaned,
        };
        let node = json!({"metadata": {"name": "node"}, "spec": {}});
        Snapshot {
            set: self.set.clone(),
            own,
            orphans: orphans::<K>(&self.set, of_nobody),
            pods,
            strays,
            revisions,
            node_images: [("node".into(), self.node_image(&node))].into(),
            jobs: Some(Vec::new()),
            unreadable: Vec::new(),
            overlapping: Vec::new(),
            nodes: BTreeMap::new(),
            ended: self.ended.clone(),
            phases: Phases::default(),
            gates: self.gates,
            resize: self.resize,
            seed: self.counter,
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot<K> {
        K::snapshot(self)
    }

    pub(crate) fn plan(&self) -> Plan {
        decide(&self.snapshot(), self.now)
    }

    /// Decides, writes, and updates the status, as the controller does.
    pub(crate) fn step(&mut self) -> Plan {
        let plan = self.begin();
        self.outcome = K::execute(self, &plan);
        self.report(plan)
    }

    /// Decides, and records the pods that have ended.
    pub(crate) fn begin(&mut self) -> Plan {
        let snapshot = self.snapshot();
        let plan = decide(&snapshot, self.now);
        if let Some(ended) = K::ended(&snapshot, &plan, self.now) {
            self.ended = ended;
        }
        plan
    }

    /// Updates the status after the writes of a plan. Returns the plan with the events of that.
    pub(crate) fn report(&mut self, mut plan: Plan) -> Plan {
        self.last = plan.clone();
        let new = status(&self.snapshot(), &plan, &self.outcome, self.now);
        let (old, reported) = (json!(K::status(&self.set)), json!(new));
        plan.events
            .extend(blocked::announced::event(&old, &reported));
        K::set_status(Arc::make_mut(&mut self.set), new);
        K::schedule(self);
        plan
    }

    pub(crate) fn status(&self) -> K::Status {
        status(&self.snapshot(), &self.last, &self.outcome, self.now).unwrap_or_default()
    }

    /// Applies writes to pods and revisions as an apiserver does. False for writes to other
    /// objects.
    pub(crate) fn write_pod_or_revision(&mut self, action: &Action) -> bool {
        let now = json!(self.now);
        let written = match action {
            Action::CreatePod { .. }
            | Action::PatchPod { .. }
            | Action::PatchPodStatus { .. }
            | Action::DeletePod { .. }
            | Action::ReleasePod { .. }
            | Action::AdoptPod { .. } => {
                let uid = format!("uid-{}", self.next());
                apiserver::write_pod(&mut self.pods, action, &uid, &now)
            }
            Action::CreateRevision { .. }
            | Action::AdoptRevision { .. }
            | Action::RenumberRevision { .. }
            | Action::PatchRevision { .. }
            | Action::DeleteRevision { .. } => {
                let uid = format!("revision-{}", self.next());
                apiserver::write_revision(&mut self.revisions, action, &uid, &now)
            }
            _ => return false,
        };
        assert_eq!(written, Ok(()), "{} was refused", action.write());
        true
    }

    /// Runs the controller and the nodes until nothing changes. Returns the number of writes to
    /// pods.
    pub(crate) fn settle(&mut self) -> usize {
        let mut writes = 0;
        for _ in 0..300 {
            let plan = self.step();
            let on_pods = |action: &&Action| action.write().resource.kind == "Pod";
            writes += plan.actions().filter(on_pods).count();
            let before = self.pods.clone();
            K::run_nodes(self);
            let nodes_rest = self.pods == before;
            // Only a pod that has ended makes the plan wait so long.
            let wait = plan
                .look_again
                .filter(|wait| nodes_rest && plan.is_idle() && wait.as_secs() > 60);
            self.pass(wait.map_or(1, |wait| wait.as_secs()));
            if nodes_rest && plan.is_idle() && plan.look_again.is_none() && self.plan().is_idle() {
                return writes;
            }
        }
        panic!("it does not come to rest: {:#?}", self.plan());
    }

    /// A user deletes the pod.
    pub(crate) fn delete(&mut self, name: &str) {
        let now = json!(self.now);
        if let Some(pod) = self.pods.get_mut(name) {
            pod["metadata"]["deletionTimestamp"] = now;
        }
    }
}
