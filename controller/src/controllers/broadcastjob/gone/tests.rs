use serde_json::{Value, json};

use super::*;

/// The state of a replica that does not lead.
struct Standby {
    gone: Gone,
    jobs: Arc<Store<Watched<BroadcastJob>>>,
    nodes: Arc<Store<Watched<Node>>>,
    knows_nodes: bool,
}

impl Standby {
    /// With this many nodes: `n0`, `n1`, …
    fn new(count: usize) -> Self {
        let (jobs, nodes) = (Store::new(&[]), Store::new(&[]));
        let standby = Self {
            gone: Gone::default(),
            jobs,
            nodes,
            knows_nodes: true,
        };
        for number in 0..count {
            let node =
                json!({"metadata": {"name": format!("n{number}"), "uid": format!("u{number}")}});
            standby.nodes.apply(serde_json::from_value(node).unwrap());
        }
        standby
    }

    /// The job with this status.
    fn told(&self, version: u32, status: Value) {
        let metadata = json!({"namespace": "default", "name": "job", "uid": "j", "resourceVersion": version.to_string()});
        let job = json!({"metadata": metadata, "spec": {"template": {}}, "status": status});
        self.jobs.apply(serde_json::from_value(job).unwrap());
        self.gone.drop_recorded(&self.job());
    }

    fn job(&self) -> Arc<Watched<BroadcastJob>> {
        self.jobs.get("default", "job").unwrap()
    }

    fn mark(&self, node: &str) -> String {
        mark_of(&self.nodes.get("", node).unwrap().0)
    }

    /// The pod of a node is deleted after its end.
    fn loses(&self, pod: &str, node: &str, phase: &str) {
        let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "name": "job", "uid": "j", "controller": true});
        let metadata =
            json!({"namespace": "default", "name": pod, "uid": pod, "ownerReferences": [owner]});
        let pod =
            json!({"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}});
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
fn follower_keeps_only_results_the_status_lacks() {
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
fn kept_results_are_bounded_by_node_count() {
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
fn leader_uses_kept_results_until_status_has_them() {
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
fn results_are_kept_until_all_nodes_are_known() {
    let standby = Standby {
        knows_nodes: false,
        ..Standby::new(0)
    };
    standby.told(1, json!({"phase": "running"}));
    let node: Arc<Node> =
        Arc::new(serde_json::from_value(json!({"metadata": {"name": "n0", "uid": "u0"}})).unwrap());
    standby.loses(&format!("job-{}", mark_of(&node)), "n0", "Succeeded");
    standby.loses("by-another", "n1", "Succeeded");
    assert_eq!(standby.kept().len(), 2);
    assert_eq!(standby.gone.of(&standby.job(), &[node]).len(), 1);
    assert_eq!(standby.kept().len(), 1, "the other's node is not there");
}
