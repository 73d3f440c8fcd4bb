use serde_json::{Value, json};

use super::*;

fn job(zone: &str, status: Value) -> Watched<BroadcastJob> {
    let template = json!({"spec": {"nodeSelector": {"zone": zone}, "containers": []}});
    let metadata = json!({"namespace": "default", "name": "job", "uid": "j"});
    serde_json::from_value(
        json!({"metadata": metadata, "spec": {"template": template}, "status": status}),
    )
    .unwrap()
}

fn node(zone: &str) -> Node {
    let metadata = json!({"name": "n1", "uid": "u", "labels": {"zone": zone}});
    let status =
        json!({"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}});
    serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
}

#[test]
fn node_triggers_its_unfinished_jobs_only() {
    let (all, in_a) = (AllTriggers::default(), node("a"));
    let wakes = || !all.concerned(None, Some(&in_a)).is_empty();
    let (here, there) = (job("a", json!({})), job("b", json!({})));
    assert!(!wakes());
    all.note(None, &here);
    assert_eq!(
        all.concerned(None, Some(&in_a)),
        [Key::new("default", "job")]
    );
    all.note(Some(&here), &job("a", json!({"active": 1})));
    assert!(wakes(), "its template is as it was");
    all.note(Some(&here), &there);
    assert!(!wakes(), "another template");
    all.note(Some(&there), &here);
    assert!(wakes());
    all.note(Some(&here), &job("a", json!({"phase": "completed"})));
    assert!(
        !wakes() && all.lock().is_empty(),
        "nothing is kept of what is over"
    );
    all.note(Some(&job("a", json!({"phase": "completed"}))), &here);
    assert!(wakes(), "it goes on");
}

#[test]
fn job_pace_slows_with_the_number_of_nodes() {
    assert_eq!(
        [3, 100, 1_000, 5_000].map(|nodes| pace(nodes).as_millis()),
        [0, 0, 100, 500]
    );
    let second = Duration::from_secs(1);
    assert_eq!(rest(None, second), None);
    assert!(rest(Some(Instant::now()), second).is_some());
}
