//! Pods of jobs that had ended and do not show it any more, as long as the status of their job may not have their nodes: the next decision
//! may come when the store does not have them. Each replica keeps them, for each may lead by then, and only the one that leads decides.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_kinds::broadcastjob::{
    hides_its_end, is_over, is_recorded, mark_of, missed, node_of, unrecorded,
};
use berth_runtime::{Change, Object, Store};
use berth_workload::node::Node;
use berth_workload::pod::Pod;
use parking_lot::{Mutex, MutexGuard};

use crate::watched::Watched;
use berth_runtime::object::BROADCAST_JOBS;
use berth_workload::owner::Reference;

/// So many more than there are nodes are kept of a job until those of nodes that are gone are looked for.
const SLACK: usize = 100;

pub(super) fn managed_by(pod: &Pod) -> Option<Reference<'_>> {
    pod.metadata
        .controller()
        .map(Reference::from)
        .filter(|owner| BROADCAST_JOBS.owner_kind().is_of(owner))
}

/// By uid of a job.
#[derive(Default)]
pub(super) struct Gone(Mutex<HashMap<String, Missed>>);

/// By the mark of a node, or by its own name where that node was not known yet: a pod that had ended there.
type Missed = BTreeMap<String, Arc<Pod>>;

impl Gone {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Missed>> {
        self.0.lock()
    }

    /// Keeps a pod that goes after its end.
    pub(super) fn note(
        &self,
        jobs: &Store<Watched<BroadcastJob>>,
        nodes: &Store<Watched<Node>>,
        change: &Change<Pod>,
    ) {
        self.note_among(jobs, (nodes, nodes.is_synced()), change);
    }

    /// The same, where it is said whether all nodes are known. Of a node that is gone nothing is missed.
    fn note_among(
        &self,
        jobs: &Store<Watched<BroadcastJob>>,
        (nodes, are_known): (&Store<Watched<Node>>, bool),
        change: &Change<Pod>,
    ) {
        let (old, new) = match change {
            Change::Deleted { old } => (old, None),
            Change::Applied {
                old: Some(old),
                new,
            } => (old, Some(&**new)),
            Change::Applied { .. } | Change::Synced => return,
        };
        let Some(owner) = managed_by(old).filter(|_| hides_its_end(old, new)) else {
            return;
        };
        // What goes with its job is missed by nobody.
        let is_its_job =
            |job: &Arc<Watched<BroadcastJob>>| job.uid() == owner.uid && !is_over(&job.0);
        let Some(job) = jobs
            .get(&old.metadata.namespace, owner.name)
            .filter(is_its_job)
        else {
            return;
        };
        let mark = match node_of(old).and_then(|name| nodes.get("", name)) {
            Some(node) => missed(&job.0, old, &node.0),
            // It is looked for when the pod is asked for.
            None => (!are_known).then(|| old.metadata.name.to_string()),
        };
        let Some(mark) = mark else { return };
        let mut all = self.lock();
        let of_job = all.entry(owner.uid.to_owned()).or_default();
        keep(of_job, mark, old);
        if are_known && of_job.len() > nodes.len() + SLACK {
            only_of(of_job, nodes.all().iter().map(|node| &*node.0));
        }
    }

    /// Lets go what the status of a job has by now, and all of a job that is over.
    pub(super) fn told(&self, job: &Watched<BroadcastJob>) {
        let mut all = self.lock();
        let Some(of_job) = all.get_mut(job.uid()) else {
            return;
        };
        of_job.retain(|mark, _| !is_recorded(&job.0, mark));
        if of_job.is_empty() || is_over(&job.0) {
            all.remove(job.uid());
        }
    }

    /// The job of this uid has gone.
    pub(super) fn forget(&self, job: &str) {
        self.lock().remove(job);
    }

    /// Those of a job that its status does not have yet.
    pub(super) fn of(&self, job: &Watched<BroadcastJob>, nodes: &[Arc<Node>]) -> Vec<Arc<Pod>> {
        let known = self
            .lock()
            .get(job.uid())
            .map(|of_job| of_job.values().cloned().collect());
        let all: Vec<Arc<Pod>> = known.unwrap_or_default();
        if all.is_empty() {
            return all;
        }
        let left = unrecorded(&job.0, nodes, all.clone());
        let pointers = |pods: &[Arc<Pod>]| pods.iter().map(Arc::as_ptr).collect::<HashSet<_>>();
        let (looked_at, still) = (pointers(&all), pointers(&left));
        let mut gone = self.lock();
        if let Some(of_job) = gone.get_mut(job.uid()) {
            // Others may have come meanwhile.
            of_job.retain(|_, pod| {
                still.contains(&Arc::as_ptr(pod)) || !looked_at.contains(&Arc::as_ptr(pod))
            });
            if of_job.is_empty() {
                gone.remove(job.uid());
            }
        }
        left
    }
}

/// One pod for each node. Of two that have ended, one that has succeeded did what was to be done.
fn keep(of_job: &mut Missed, mark: String, pod: &Arc<Pod>) {
    let has_succeeded = &*pod.status.phase == "Succeeded";
    let kept = of_job.entry(mark).or_insert_with(|| pod.clone());
    if has_succeeded {
        *kept = pod.clone();
    }
}

/// Lets go what is of other nodes than these.
fn only_of<'a>(of_job: &mut Missed, nodes: impl Iterator<Item = &'a Node>) {
    let there: BTreeSet<_> = nodes.map(mark_of).collect();
    of_job.retain(|mark, _| there.contains(mark));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a replica knows that does not lead.
    struct Standby {
        gone: Gone,
        jobs: Arc<Store<Watched<BroadcastJob>>>,
        nodes: Arc<Store<Watched<Node>>>,
        knows_nodes: bool,
    }

    impl Standby {
        /// With so many nodes, `n0`, `n1`, …
        fn new(count: usize) -> Self {
            let (jobs, nodes) = (Store::new(&[]), Store::new(&[]));
            let standby = Self {
                gone: Gone::default(),
                jobs,
                nodes,
                knows_nodes: true,
            };
            for number in 0..count {
                let node = json!({"metadata": {"name": format!("n{number}"), "uid": format!("u{number}")}});
                standby.nodes.apply(serde_json::from_value(node).unwrap());
            }
            standby
        }

        /// The job as its status is now.
        fn told(&self, version: u32, status: Value) {
            let metadata = json!({"namespace": "default", "name": "job", "uid": "j", "resourceVersion": version.to_string()});
            let job = json!({"metadata": metadata, "spec": {"template": {}}, "status": status});
            self.jobs.apply(serde_json::from_value(job).unwrap());
            self.gone.told(&self.job());
        }

        fn job(&self) -> Arc<Watched<BroadcastJob>> {
            self.jobs.get("default", "job").unwrap()
        }

        fn mark(&self, node: &str) -> String {
            mark_of(&self.nodes.get("", node).unwrap().0)
        }

        /// The pod of a node goes after its end.
        fn loses(&self, pod: &str, node: &str, phase: &str) {
            let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "name": "job", "uid": "j", "controller": true});
            let metadata = json!({"namespace": "default", "name": pod, "uid": pod, "ownerReferences": [owner]});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}});
            let old = Arc::new(serde_json::from_value::<Pod>(pod).unwrap());
            self.gone.note_among(
                &self.jobs,
                (&self.nodes, self.knows_nodes),
                &Change::Deleted { old },
            );
        }

        /// The phases of the pods that are kept.
        fn kept(&self) -> Vec<String> {
            let all = self.gone.lock();
            all.values()
                .flat_map(Missed::values)
                .map(|pod| pod.status.phase.to_string())
                .collect()
        }
    }

    #[test]
    fn a_replica_that_does_not_lead_keeps_what_the_status_lacks_and_no_more() {
        let standby = Standby::new(2);
        let (first, second) = (standby.mark("n0"), standby.mark("n1"));
        standby.told(
            1,
            json!({"phase": "running", "endedNodes": [format!("+{first}")]}),
        );
        standby.loses(&format!("job-{first}"), "n0", "Succeeded");
        assert!(standby.kept().is_empty(), "the status has its node");
        for (pod, node, phase) in [
            (&*format!("job-{second}"), "gone", "Succeeded"),
            ("job-abcdefghijkl", "n1", "Succeeded"),
            ("by-another", "n0", "Succeeded"),
            (&*format!("job-{second}"), "n1", "Running"),
        ] {
            standby.loses(pod, node, phase);
            assert!(standby.kept().is_empty(), "{pod} of {node}, {phase}");
        }
        standby.loses(&format!("job-{second}"), "n1", "Failed");
        assert_eq!(standby.kept(), ["Failed"]);
        standby.loses("by-another", "n1", "Succeeded");
        standby.loses("by-a-third", "n1", "Failed");
        assert_eq!(standby.kept(), ["Succeeded"], "one for each node");
        standby.told(
            2,
            json!({"phase": "running", "endedNodes": [format!("+{first}"), format!("+{second}")]}),
        );
        assert!(standby.gone.lock().is_empty(), "the status has both");
    }

    #[test]
    fn nothing_is_kept_of_a_job_that_is_over_or_gone() {
        let ways: [fn(&Standby); 2] = [
            |standby| standby.told(2, json!({"phase": "completed"})),
            |standby| standby.gone.forget("j"),
        ];
        for ends in ways {
            let standby = Standby::new(1);
            standby.told(1, json!({"phase": "running"}));
            standby.loses(&format!("job-{}", standby.mark("n0")), "n0", "Succeeded");
            assert_eq!(standby.kept().len(), 1);
            ends(&standby);
            assert!(standby.gone.lock().is_empty());
        }
    }

    #[test]
    fn what_is_kept_is_no_more_than_there_are_nodes_and_a_few() {
        let standby = Standby::new(0);
        standby.told(1, json!({"phase": "running"}));
        for number in 0..3 * SLACK {
            // Nodes that come, have their pod, and go.
            let (name, uid) = (format!("n{number}"), format!("u{number}"));
            let node = json!({"metadata": {"name": name, "uid": uid}});
            standby.nodes.apply(serde_json::from_value(node).unwrap());
            standby.loses(&format!("job-{}", standby.mark(&name)), &name, "Succeeded");
            standby.nodes.remove("", &name, None);
            assert!(standby.kept().len() <= SLACK + 1, "{number}");
        }
    }

    #[test]
    fn the_leader_takes_what_is_missed_until_the_status_has_it() {
        let standby = Standby::new(2);
        standby.told(1, json!({"phase": "running"}));
        let first = standby.mark("n0");
        standby.loses(&format!("job-{first}"), "n0", "Succeeded");
        let nodes: Vec<_> = standby
            .nodes
            .all()
            .iter()
            .map(|node| node.0.clone())
            .collect();
        assert_eq!(standby.gone.of(&standby.job(), &nodes).len(), 1);
        assert_eq!(standby.kept().len(), 1, "until it is written");
        assert!(standby.gone.of(&standby.job(), &[]).is_empty());
        assert!(standby.gone.lock().is_empty(), "its node is gone");
    }

    #[test]
    fn before_all_nodes_are_known_nothing_is_taken_for_one_of_a_node_that_is_gone() {
        let standby = Standby {
            knows_nodes: false,
            ..Standby::new(0)
        };
        standby.told(1, json!({"phase": "running"}));
        let node: Arc<Node> = Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "n0", "uid": "u0"}})).unwrap(),
        );
        standby.loses(&format!("job-{}", mark_of(&node)), "n0", "Succeeded");
        standby.loses("by-another", "n1", "Succeeded");
        assert_eq!(standby.kept().len(), 2);
        assert_eq!(standby.gone.of(&standby.job(), &[node]).len(), 1);
        assert_eq!(standby.kept().len(), 1, "the other's node is not there");
    }
}
