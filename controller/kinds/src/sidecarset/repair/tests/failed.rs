//! Replacements that fail, that a budget holds, or that come before the pod is deleted.

use berth_api::names::annotation::SURGE_ON_EVICTION;
use berth_api::names::label::POD_TEMPLATE_HASH;

use super::*;

/// A pod without the containers, whose uid is its name, in this namespace.
fn of(namespace: &str, name: &str, owner: &str) -> Value {
    let mut pod = bare(name, owner);
    pod["metadata"]["namespace"] = json!(namespace);
    pod
}

fn failed(verb: Verb, code: u16, message: &str) -> Outcome {
    let failure = Failure::of_budget(Write::of(verb, PODS), ("t1", "a"), message.to_owned());
    Outcome {
        failures: vec![Failure {
            code,
            permanent: code == 429,
            outdated: code == 409,
            ..failure
        }],
    }
}

/// Rounds of one leader.
#[derive(Default)]
struct Leader {
    status: Value,
    turns: Arc<Turns>,
}

impl Leader {
    fn round(&mut self, second: i64, pods: &[Value], outcome: &Outcome) -> Vec<String> {
        self.round_of(
            second,
            Snapshot {
                turns: self.turns.clone(),
                ..asked("All", json!({}), &self.status, pods)
            },
            outcome,
        )
    }

    fn round_of(&mut self, second: i64, snapshot: Snapshot, outcome: &Outcome) -> Vec<String> {
        let now = Timestamp::from_second(second).unwrap();
        let plan = decide(&snapshot, now);
        let acts = done(&plan);
        let outcome = if acts.is_empty() {
            &Outcome::default()
        } else {
            outcome
        };
        self.status = json!(status(&snapshot, &plan, outcome, now));
        self.turns = Arc::new(snapshot.turns.after(&snapshot, &plan, outcome, now));
        acts
    }

    fn record(&self) -> (&str, bool) {
        let record = &self.status["repair"];
        (
            record["pod"].as_str().unwrap_or_default(),
            record["over"] == true,
        )
    }
}

#[test]
fn failed_replacement_ends_the_turn_for_any_code() {
    let label = "apps.kruise.io/v1alpha1 CloneSet";
    for (owner, verb) in [("apps/v1 ReplicaSet", Verb::Evict), (label, Verb::Patch)] {
        for code in [0, 409, 500] {
            let pods = [of("t1", "a", owner), of("victim", "b", owner)];
            let outcome = failed(verb, code, "etcdserver: request is too large");
            let (mut leader, ok) = (Leader::default(), Outcome::default());
            leader.round(0, &pods, &ok);
            assert_eq!(leader.round(1, &pods, &outcome).len(), 1);
            assert_eq!(leader.record(), ("a", false), "{code}: it may be done");
            assert!(leader.round(2, &pods, &ok).is_empty());
            assert_eq!(leader.record(), ("a", true), "{code}");
            for second in [2, 9] {
                leader.round(second, &pods, &ok);
                assert!(
                    condition(&leader.status).1.contains("too large"),
                    "{second}: {:#}",
                    leader.status
                );
            }
            leader.round(20, &pods, &ok);
            assert_eq!(leader.record(), ("b", false), "{code}");
            assert!(leader.round(21, &pods, &ok)[0].ends_with(" b"));
        }
    }
}

#[test]
fn pod_whose_replacement_fails_twice_is_set_aside() {
    let pods = [of("t1", "a", "apps.kruise.io/v1alpha1 CloneSet")];
    let outcome = failed(Verb::Patch, 500, "too large");
    let mut leader = Leader::default();
    let tries = |leader: &mut Leader, from: i64, to: i64| {
        (from..to)
            .filter(|second| !leader.round(*second, &pods, &outcome).is_empty())
            .collect::<Vec<_>>()
    };
    let found = tries(&mut leader, 0, 150);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[1] - found[0] < 30 && (60..90).contains(&(found[2] - found[1])),
        "{found:?}"
    );
    leader.round(150, &pods, &outcome);
    let message = condition(&leader.status).1;
    assert!(
        message.contains("pod t1/a: is set aside after 3 failed tries: too large"),
        "{message}"
    );
}

#[test]
fn unreadable_pod_is_not_replaced() {
    let pods = [
        of("t1", "a", "apps.kruise.io/v1alpha1 CloneSet"),
        of("victim", "b", "apps/v1 ReplicaSet"),
    ];
    let unreadable = |leader: &Leader| Snapshot {
        unreadable: [(
            "a".into(),
            "metadata.annotations[x]: 70000 bytes".to_owned(),
        )]
        .into(),
        turns: leader.turns.clone(),
        ..asked("All", json!({}), &leader.status, &pods)
    };
    let (mut leader, ok) = (Leader::default(), Outcome::default());
    leader.round(0, &pods, &ok);
    assert_eq!(leader.record(), ("a", false));
    let expected = [("a", true), ("b", false)];
    for (second, expected) in (1..).zip(expected) {
        let snapshot = unreadable(&leader);
        assert!(leader.round_of(second, snapshot, &ok).is_empty());
        assert_eq!(leader.record(), expected);
    }
    let waiting = decide(&unreadable(&leader), NOW).waiting;
    let said = waiting
        .iter()
        .find(|waiting| waiting.pod == "t1/a")
        .unwrap();
    assert!(
        said.reason
            .contains("cannot read it: metadata.annotations[x]: 70000 bytes"),
        "{said:?}"
    );
}

#[test]
fn pod_with_replacement_first_keeps_its_turn() {
    let owner = "apps/v1 ReplicaSet";
    let pods = [of("t1", "a", owner), of("t1", "c", owner)];
    let first = failed(
        Verb::Evict,
        429,
        "replacement first: another pod of Deployment web is to come",
    );
    let no_room = failed(Verb::Evict, 429, "budget web allows no more pods to go");
    let (mut leader, ok) = (Leader::default(), Outcome::default());
    leader.round(0, &pods, &ok);
    assert_eq!(leader.round(1, &pods, &first), ["evict a"]);
    assert_eq!(
        (leader.record(), condition(&leader.status).0.as_str()),
        (("a", false), "Replacing")
    );
    // A budget has the pod taken from its ReplicaSet, which creates another.
    let mut released = of("t1", "a", "apps/v1 Deployment");
    released["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    released["metadata"]["labels"][POD_TEMPLATE_HASH] = json!("released-a");
    released["metadata"]["annotations"] = json!({SURGE_ON_EVICTION: "true"});
    let mut new = owned(pod("new", "h2", true), owner);
    new["metadata"]["namespace"] = json!("t1");
    new["metadata"]["creationTimestamp"] = json!("2026-01-04T00:00:00Z");
    let pods = [released.clone(), pods[1].clone(), new.clone()];
    let tries: Vec<_> = (2..30)
        .filter(|second| !leader.round(*second, &pods, &no_room).is_empty())
        .collect();
    assert_eq!(tries, [11, 21], "no other pod is taken meanwhile");
    assert_eq!(leader.round(31, &pods, &ok), ["evict a"]);
    leader.round(32, &pods[1..], &ok);
    assert_eq!(leader.record(), ("a", true));
    leader.round(50, &pods[1..], &ok);
    assert_eq!(leader.record(), ("c", false));
    // If no successor comes, the workload is lost after five minutes.
    let mut leader = Leader {
        status: Value::Null,
        turns: Arc::default(),
    };
    leader.round(0, &[pods[1].clone()], &ok);
    let first = Outcome {
        failures: first
            .failures
            .into_iter()
            .map(|it| Failure {
                object: "c".to_owned(),
                ..it
            })
            .collect(),
    };
    let mut tried = 0;
    for second in 1..310 {
        tried += leader.round(second, &[pods[1].clone()], &first).len();
    }
    assert_eq!((leader.record(), tried), (("c", true), 30));
    // Repair begins no turn for a pod that is being deleted anyway.
    let mut leader = Leader::default();
    leader.round(0, &[released, new], &ok);
    assert!(
        condition(&leader.status)
            .1
            .contains("pod t1/a: goes when another has come"),
        "{:#}",
        leader.status
    );
}
