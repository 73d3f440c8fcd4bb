use serde_json::{Value, json};

use super::*;

const START: i64 = 1_000_000;

struct Case {
    spec: CloneSetSpec,
    status: CloneSetStatus,
    now: Timestamp,
}

impl Case {
    fn new(spec: Value) -> Self {
        let mut whole =
            json!({"selector": {}, "template": {}, "replicas": 4, "progressDeadlineSeconds": 10});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let spec = serde_json::from_value(whole).unwrap();
        Self {
            spec,
            status: CloneSetStatus::default(),
            now: Timestamp::from_second(START).unwrap(),
        }
    }

    /// A new status with these counts (replicas, updated, available, updated available) some
    /// seconds later. Returns the reason, and the condition's two times in seconds since the start.
    fn after(&mut self, seconds: i64, counts: [i32; 4], revisions: [&str; 2]) -> String {
        self.now += SignedDuration::from_secs(seconds);
        let [
            replicas,
            updated_replicas,
            available_replicas,
            updated_available_replicas,
        ] = counts;
        let partition = self
            .spec
            .update_strategy
            .rolling_update
            .as_ref()
            .and_then(|r| r.partition.clone());
        let partition = partition.map_or(0, |p| {
            if let berth_api::IntOrString::Int(p) = p {
                p
            } else {
                0
            }
        });
        let mut new = CloneSetStatus {
            replicas,
            updated_replicas,
            available_replicas,
            ready_replicas: available_replicas,
            updated_available_replicas,
            expected_updated_replicas: self.spec.replicas.unwrap_or(1) - partition,
            current_revision: revisions[0].to_owned(),
            update_revision: revisions[1].to_owned(),
            conditions: self.status.conditions.clone(),
            ..CloneSetStatus::default()
        };
        set(&self.spec, &self.status, &mut new, self.now);
        self.status = new;
        let Some(c) = of(&self.status) else {
            return "none".to_owned();
        };
        let at = |time: &Option<Time>| time.as_ref().unwrap().0.as_second() - START;
        format!(
            "{} {} {} {}",
            c.status,
            c.reason,
            at(&c.last_update_time),
            at(&c.last_transition_time)
        )
    }

    fn set(&mut self, spec: Value) {
        let mut case = Case::new(spec);
        std::mem::swap(&mut self.spec, &mut case.spec);
    }
}

#[test]
fn no_progress_condition_without_deadline() {
    for deadline in [json!(null), json!(i32::MAX)] {
        let mut case = Case::new(json!({}));
        assert_eq!(
            case.after(0, [0; 4], ["1", "1"]),
            "True CloneSetUpdated 0 0"
        );
        case.set(json!({"progressDeadlineSeconds": deadline}));
        assert_eq!(case.after(1, [0; 4], ["1", "1"]), "none");
    }
}

#[test]
fn the_deadline_counts_from_the_last_progress() {
    let mut case = Case::new(json!({}));
    assert_eq!(
        case.after(0, [4, 0, 4, 0], ["1", "2"]),
        "True CloneSetUpdated 0 0"
    );
    assert_eq!(
        case.after(9, [4, 0, 4, 0], ["1", "2"]),
        "True CloneSetUpdated 0 0"
    );
    assert_eq!(
        case.after(0, [4, 1, 3, 0], ["1", "2"]),
        "True CloneSetUpdated 9 0",
        "a pod was updated"
    );
    assert_eq!(
        case.after(10, [4, 1, 3, 0], ["1", "2"]),
        "True CloneSetUpdated 9 0"
    );
    let over = "False ProgressDeadlineExceeded 20 20";
    assert_eq!(case.after(1, [4, 1, 3, 0], ["1", "2"]), over);
    assert_eq!(
        of(&case.status).unwrap().message,
        "CloneSet revision 2 has timed out progressing"
    );
    assert_eq!(case.after(98, [4, 1, 3, 0], ["1", "2"]), over);
    assert_eq!(
        case.after(1, [4, 2, 4, 1], ["1", "2"]),
        over,
        "what moves too late is too late"
    );
    assert_eq!(
        case.after(1, [4, 1, 3, 0], ["1", "3"]),
        "True CloneSetUpdated 120 120",
        "another template"
    );
    assert_eq!(
        case.after(1, [4, 4, 4, 4], ["3", "3"]),
        "True CloneSetAvailable 121 120"
    );
    assert_eq!(
        case.after(99, [4, 4, 4, 4], ["3", "3"]),
        "True CloneSetAvailable 121 120"
    );
    assert_eq!(
        case.after(0, [4, 4, 3, 3], ["3", "3"]),
        "True CloneSetUpdated 220 120",
        "a pod fails"
    );
    assert_eq!(
        case.after(11, [4, 4, 3, 3], ["3", "3"]),
        "False ProgressDeadlineExceeded 231 231"
    );
}

#[test]
fn deadline_excludes_time_paused_or_at_partition() {
    let mut case = Case::new(json!({}));
    assert_eq!(
        case.after(0, [4, 0, 4, 0], ["1", "2"]),
        "True CloneSetUpdated 0 0"
    );
    case.set(json!({"updateStrategy": {"rollingUpdate": {"paused": true}}}));
    assert_eq!(
        case.after(5, [4, 0, 4, 0], ["1", "2"]),
        "True CloneSetPaused 5 0"
    );
    assert_eq!(
        case.after(500, [4, 0, 4, 0], ["1", "2"]),
        "True CloneSetPaused 5 0"
    );
    case.set(json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}}));
    assert_eq!(
        case.after(0, [4, 0, 4, 0], ["1", "2"]),
        "True CloneSetUpdated 505 0"
    );
    assert_eq!(
        case.after(5, [4, 1, 4, 1], ["1", "2"]),
        "True ProgressPartitionAvailable 510 0"
    );
    assert_eq!(
        case.after(500, [4, 1, 4, 1], ["1", "2"]),
        "True ProgressPartitionAvailable 510 0"
    );
    case.set(json!({}));
    assert_eq!(
        case.after(0, [4, 1, 4, 1], ["1", "2"]),
        "True CloneSetUpdated 1010 0"
    );
}

#[test]
fn rollout_with_surplus_pod_is_not_complete() {
    let mut case = Case::new(json!({}));
    assert_eq!(
        case.after(0, [5, 4, 5, 4], ["1", "2"]),
        "True CloneSetUpdated 0 0",
        "an old pod is still there"
    );
    assert_eq!(
        case.after(0, [4, 4, 4, 4], ["1", "2"]),
        "True CloneSetUpdated 0 0",
        "it has not become the current one"
    );
    case.set(json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}));
    assert_eq!(
        case.after(0, [5, 3, 5, 3], ["1", "2"]),
        "True ProgressPartitionAvailable 0 0"
    );
}

#[test]
fn a_partition_without_pods_is_reached() {
    let mut case = Case::new(json!({"replicas": 0}));
    case.set(json!({"replicas": 0, "updateStrategy": {"rollingUpdate": {"partition": "80%"}}}));
    assert_eq!(
        case.after(0, [0; 4], ["1", "1"]),
        "True CloneSetAvailable 0 0"
    );
    assert_eq!(
        case.after(5, [0; 4], ["1", "2"]),
        "True ProgressPartitionAvailable 5 0"
    );
    assert_eq!(
        case.after(500, [0; 4], ["1", "2"]),
        "True ProgressPartitionAvailable 5 0"
    );
    case.set(json!({"replicas": 0}));
    assert_eq!(
        case.after(0, [0; 4], ["2", "2"]),
        "True CloneSetAvailable 505 0"
    );
}

#[test]
fn it_looks_again_when_the_deadline_is_over() {
    let mut case = Case::new(json!({}));
    case.after(0, [4, 0, 4, 0], ["1", "2"]);
    let mut set = CloneSet {
        spec: case.spec.clone(),
        status: Some(case.status.clone()),
        ..CloneSet::default()
    };
    let wait = |set: &CloneSet, seconds: i64| {
        let mut plan = Plan::default();
        look_again(
            set,
            &mut plan,
            Timestamp::from_second(START + seconds).unwrap(),
        );
        plan.look_again.map(|wait| wait.as_secs())
    };
    assert_eq!(
        (wait(&set, 0), wait(&set, 4), wait(&set, 11)),
        (Some(11), Some(7), None)
    );
    case.after(11, [4, 0, 4, 0], ["1", "2"]);
    set.status = Some(case.status);
    assert_eq!(
        wait(&set, 12),
        None,
        "it is over, and nothing is to be looked for"
    );
}
