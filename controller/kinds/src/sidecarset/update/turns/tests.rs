//! The turns of namespaces and pods, by tables and in whole rollouts of several namespaces.

use berth_workload::objects::resource::{CONTROLLER_REVISIONS, PODS};
use berth_workload::plan::{Failure, Write};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sidecarset::names::HASH;
use crate::sidecarset::tests::{pod, snapshot};
use crate::sidecarset::{decide, pod_events, status};
use berth_workload::plan::Verb;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod of this namespace. Its uid is made of namespace and name.
fn of(namespace: &str, name: &str, hash: &str) -> Value {
    let mut pod = pod(name, hash, true);
    pod["metadata"]["namespace"] = json!(namespace);
    pod["metadata"]["uid"] = json!(format!("{namespace}/{name}"));
    if name.starts_with("fake") {
        // The newest pod, which comes first.
        pod["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    }
    pod
}

fn failed(pod: &str, code: u16) -> Failure {
    let (namespace, name) = pod.split_once('/').unwrap();
    let failure = Failure::of_budget(
        Write::of(Verb::Patch, PODS),
        (namespace, name),
        "policy says no".to_owned(),
    );
    Failure {
        code,
        permanent: matches!(code, 403 | 422 | 429),
        outdated: code == 409,
        ..failure
    }
}

/// The pods that an update patches, by uid.
fn patches(plan: &Plan) -> Vec<String> {
    let steps = plan
        .stages
        .iter()
        .filter(|stage| stage.name == UPDATE)
        .flat_map(|stage| &stage.steps);
    let actions = steps.flat_map(|step| &step.actions);
    let uid = |action: &Action| match action {
        Action::PatchPod { target, .. } => target.uid.clone(),
        other => panic!("{other:?}"),
    };
    actions.map(uid).collect()
}

/// A rollout in which each update is done at once, except for pods whose patches the apiserver
/// refuses.
struct World {
    pods: Vec<Value>,
    turns: Arc<Turns>,
    /// A part of the uids of pods that are refused, and the code of the refusals.
    refuses: &'static str,
    code: u16,
    max_unavailable: usize,
}

impl World {
    fn of(pods: Vec<Value>, refuses: &'static str) -> Self {
        Self {
            pods,
            turns: Arc::default(),
            refuses,
            code: 403,
            max_unavailable: 1,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let strategy = json!({"/spec/updateStrategy": {"maxUnavailable": self.max_unavailable}});
        Snapshot {
            turns: self.turns.clone(),
            ..snapshot(&strategy, &self.pods)
        }
    }

    /// A round: the uids of the pods that were patched, or tried.
    fn round(&mut self, now: Timestamp) -> Vec<String> {
        let snapshot = self.snapshot();
        let plan = decide(&snapshot, now);
        let tried = patches(&plan);
        let is_refused = |uid: &&String| !self.refuses.is_empty() && uid.contains(self.refuses);
        let failures = tried
            .iter()
            .filter(is_refused)
            .map(|uid| failed(uid, self.code))
            .collect();
        self.turns = Arc::new(
            snapshot
                .turns
                .after(&snapshot, &plan, &Outcome { failures }, now),
        );
        for pod in &mut self.pods {
            let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
            if tried.contains(&uid) && !is_refused(&&uid) {
                let (namespace, name) = uid.split_once('/').unwrap();
                *pod = of(namespace, name, "h2");
            }
        }
        tried
    }
}

#[test]
fn namespaces_take_turns_one_pod_after_the_other() {
    let many = (0..5).map(|n| of("many", &format!("p{n}"), "h1"));
    let few = ["a", "b"].map(|name| of("few", name, "h1"));
    let mut world = World::of(many.chain(few).chain([of("one", "c", "h1")]).collect(), "");
    let order: Vec<_> = (0..8).flat_map(|_| world.round(at(0))).collect();
    let namespaces: Vec<_> = order
        .iter()
        .map(|uid| uid.split_once('/').unwrap().0)
        .collect();
    assert_eq!(
        namespaces,
        ["few", "one", "many", "few", "many", "many", "many", "many"],
        "{order:?}"
    );
    world = World {
        max_unavailable: 4,
        ..World::of(world.pods.iter().map(old).collect(), "")
    };
    let first = world.round(at(0));
    let of_many = first.iter().filter(|uid| uid.starts_with("many/")).count();
    assert_eq!(
        (first.len(), of_many),
        (4, 1),
        "in one round, too: {first:?}"
    );
}

fn old(pod: &Value) -> Value {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let (namespace, name) = uid.split_once('/').unwrap();
    of(namespace, name, "h1")
}

/// A pod that a budget holds is not set aside: it is tried repeatedly, after all others. A pod that
/// another writer changed first is the next one of its namespace again, and other namespaces have
/// their turns.
#[test]
fn failed_pod_waits_for_others_for_any_code() {
    for (code, is_aside) in [
        (403, true),
        (422, true),
        (409, false),
        (500, true),
        (0, true),
        (429, false),
    ] {
        let pods = vec![
            of("t1", "fake", "h1"),
            of("t1", "b", "h1"),
            of("victim", "a", "h1"),
            of("victim", "b", "h1"),
        ];
        let mut world = World {
            code,
            ..World::of(pods, "fake")
        };
        let order: Vec<_> = (0..7)
            .map(|second| world.round(at(second)).join(" "))
            .collect();
        let last = if is_aside { "" } else { "t1/fake" };
        let third = if code == 409 { "t1/fake" } else { "t1/b" };
        assert_eq!(
            order,
            [
                "t1/fake", "victim/a", third, "victim/b", "t1/fake", last, last
            ],
            "{code}"
        );
    }
}

#[test]
fn pods_held_by_budgets_are_tried_in_turns() {
    let pods = ["fake1", "fake2", "fake3"]
        .map(|name| of("t1", name, "h1"))
        .to_vec();
    let mut world = World {
        code: 429,
        ..World::of(pods, "fake")
    };
    let order: Vec<_> = (0..6).flat_map(|second| world.round(at(second))).collect();
    assert_eq!(order[..3], order[3..]);
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn failed_pod_is_set_aside_for_longer_each_time() {
    let mut world = World::of(vec![of("t1", "fake", "h1")], "fake");
    // After the first failure it is only the last one.
    let order: Vec<_> = (0..3).map(|_| world.round(at(0)).join(" ")).collect();
    assert_eq!(order, ["t1/fake", "t1/fake", ""]);
    let mut now = 0;
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        let left = decide(&world.snapshot(), at(now)).look_again.unwrap();
        assert_eq!(left.as_secs(), 60 * minutes, "after {now} s");
        assert_eq!(
            world.round(at(now + 60 * minutes - 1)),
            [""; 0],
            "after {now} s"
        );
        now += 60 * minutes;
        assert_eq!(world.round(at(now)), ["t1/fake"], "after {now} s");
    }
    // Other images are tried at once, and a pod that is let through is forgotten.
    let mut other = world.snapshot();
    other.hashes.hash = "h3".to_owned();
    assert_eq!(patches(&decide(&other, at(now))), ["t1/fake"]);
    world.refuses = "";
    assert_eq!(world.round(at(now + 3600)), ["t1/fake"]);
    assert!(world.turns.failed.is_empty());
}

#[test]
fn failed_pods_are_the_ones_that_a_partition_keeps() {
    let pods = vec![
        of("t1", "fake", "h1"),
        of("victim", "a", "h1"),
        of("victim", "b", "h1"),
    ];
    let mut world = World::of(pods, "fake");
    world.round(at(0));
    let strategy = json!({"/spec/updateStrategy": {"maxUnavailable": 3, "partition": 1}});
    let snapshot = Snapshot {
        turns: world.turns,
        ..snapshot(&strategy, &world.pods)
    };
    assert_eq!(
        patches(&decide(&snapshot, at(1))),
        ["victim/a", "victim/b"],
        "the one that stays is the failed one"
    );
}

#[test]
fn unreadable_pod_is_no_candidate_and_is_named() {
    let mut pods = vec![of("t1", "fake", "h1"), of("victim", "a", "h1")];
    let unreadable = |snapshot: Snapshot| {
        let why = "metadata.annotations[x.kruise.io/y]: 70000 bytes".to_owned();
        Snapshot {
            unreadable: [("t1/fake".into(), why)].into(),
            ..snapshot
        }
    };
    let of_pods = |pods: &[Value]| unreadable(snapshot(&json!({}), pods));
    let plan = decide(&of_pods(&pods), at(0));
    assert_eq!(patches(&plan), ["victim/a"]);
    let blocked = |snapshot: &Snapshot| {
        let conditions =
            status(snapshot, &Default::default(), &Default::default(), at(0)).conditions;
        conditions
            .into_iter()
            .find(|known| known.type_ == "Blocked")
            .map(|it| (it.reason, it.message))
    };
    let (reason, message) = blocked(&of_pods(&pods)).unwrap();
    assert_eq!(reason, "Unreadable");
    let said = "SidecarSet log: pod t1/fake stays, because the controller cannot read it: metadata.annotations[x.kruise.io/y]: 70000 bytes; \
                shorten or remove that field, or delete the pod; other pods go on";
    assert_eq!(message, said);
    assert!(
        plan.waiting
            .iter()
            .any(|waiting| waiting.pod == "t1/fake" && said.contains(&waiting.reason))
    );
    // An update that was under way when it became unreadable counts for five minutes.
    let state = json!({"log": {"revision": "h1", "updateTimestamp": at(0), "berthWasReady": true, "updateImages": true,
        "lastContainerStatuses": {"agent": {"imageID": "id-agent:1", "containerID": "c://1"}}}});
    pods[0] = of("t1", "fake", "h2");
    pods[0]["metadata"]["annotations"][crate::sidecarset::names::INPLACE_UPDATE_STATE] =
        json!(state.to_string());
    pods[0]["status"]["containerStatuses"][1]["imageID"] = json!("id-agent:1");
    for (is_readable, second, expected) in [
        (true, 299, 0),
        (true, 301, 0),
        (false, 299, 0),
        (false, 301, 1),
    ] {
        let snapshot = if is_readable {
            snapshot(&json!({}), &pods)
        } else {
            of_pods(&pods)
        };
        assert_eq!(
            patches(&decide(&snapshot, at(second))).len(),
            expected,
            "{is_readable} {second}"
        );
    }
    assert_eq!(blocked(&of_pods(&pods)), None, "it has its image");
}

#[test]
fn failures_are_reported_when_pod_is_set_aside() {
    let snapshot = snapshot(&json!({}), &[of("t1", "a", "h1")]);
    let plan = decide(&snapshot, at(0));
    for (code, is_aside) in [
        (403, true),
        (409, false),
        (500, true),
        (0, true),
        (429, false),
    ] {
        let outcome = Outcome {
            failures: vec![failed("t1/a", code)],
        };
        let first = Turns::default().after(&snapshot, &plan, &outcome, at(0));
        assert_eq!(
            (first.count, first.held("t1/a", "h2", at(0))),
            (1, None),
            "{code}: one may be an outage"
        );
        assert!(pod_events(&first, &plan, &outcome).is_empty(), "{code}");
        assert_eq!(
            first.has_new_failures(&Turns::default()),
            is_aside,
            "{code}"
        );
        let second = first.after(&snapshot, &plan, &outcome, at(1));
        assert_eq!(
            second.held("t1/a", "h2", at(2)).is_some(),
            is_aside,
            "{code}"
        );
        assert_eq!(second.has_new_failures(&first), is_aside, "{code}");
        assert_eq!(
            pod_events(&second, &plan, &outcome).len(),
            usize::from(is_aside),
            "{code}"
        );
    }
    let of_another = Outcome {
        failures: vec![failed("t2/a", 403)],
    };
    let turns = Turns::default().after(&snapshot, &plan, &of_another, at(0));
    assert!(
        turns.failed.is_empty(),
        "a pod of this name in another namespace is another"
    );
    let gone = Snapshot {
        pods: Vec::new(),
        ..snapshot.clone()
    };
    let turns = turns.after(
        &snapshot,
        &plan,
        &Outcome {
            failures: vec![failed("t1/a", 403)],
        },
        at(0),
    );
    let after = turns.after(&gone, &Plan::default(), &Outcome::default(), at(1));
    assert_eq!(
        after,
        Turns {
            count: turns.count,
            ..Turns::default()
        },
        "nothing is kept of pods that are gone"
    );
}

#[test]
fn untried_pods_have_no_turn() {
    let mut snapshot = snapshot(&json!({}), &[of("t1", "a", "h1")]);
    snapshot.revisions.clear();
    let plan = decide(&snapshot, at(0));
    let write = Write::of(Verb::Create, CONTROLLER_REVISIONS);
    let failure = Failure::of_budget(write, ("kruise-system", "log-1"), "no".to_owned());
    let turns = Turns::default().after(
        &snapshot,
        &plan,
        &Outcome {
            failures: vec![failure],
        },
        at(0),
    );
    assert_eq!((patches(&plan).len(), turns), (1, Turns::default()));
}

#[test]
fn pod_set_aside_is_reported_once_with_remedy() {
    let snapshot = snapshot(
        &json!({}),
        &[of("t1", "fake", "h1"), of("victim", "a", "h1")],
    );
    let plan = decide(&snapshot, at(0));
    let outcome = Outcome {
        failures: vec![failed("t1/fake", 500)],
    };
    let first = Arc::new(snapshot.turns.after(&snapshot, &plan, &outcome, at(0)));
    let snapshot = Snapshot {
        turns: first,
        ..snapshot
    };
    let told = |snapshot: &Snapshot, plan: &Plan, outcome: &Outcome| {
        let new = status(snapshot, plan, outcome, at(0));
        let event = crate::sidecarset::blocked_event(snapshot, &new)
            .map(|event| (event.reason, event.message));
        let blocked = new.conditions.iter().find(|known| known.type_ == "Blocked");
        (
            blocked.map(|it| (it.reason.clone(), it.message.clone())),
            event,
            new,
        )
    };
    assert_eq!(
        told(&snapshot, &Plan::default(), &Outcome::default()).0,
        None
    );
    let (blocked, event, new) = told(&snapshot, &plan, &outcome);
    let (reason, message) = blocked.unwrap();
    assert_eq!(
        (reason.as_str(), event),
        ("UpdateRefused", Some(("UpdateRefused", message.clone())))
    );
    let said = "SidecarSet log: pod t1/fake stays as it is, because the apiserver did not take the change: policy says no; correct";
    assert!(
        message.starts_with(said) && message.contains("delete the pod"),
        "{message}"
    );
    let mut next = Snapshot {
        turns: Arc::new(snapshot.turns.after(&snapshot, &plan, &outcome, at(0))),
        ..snapshot
    };
    Arc::make_mut(&mut next.set).status = Some(new);
    let plan = decide(&next, at(1));
    let (still, event, _) = told(&next, &plan, &Outcome::default());
    assert_eq!(
        (still.map(|(_, still)| still), event),
        (Some(message), None),
        "it was told"
    );
    let waits = plan
        .waiting
        .iter()
        .find(|waiting| waiting.pod == "t1/fake")
        .unwrap();
    assert_eq!(
        waits.reason,
        "is set aside after 2 failed tries: policy says no; tried again within 1 min"
    );
    // A pod of the largest size cannot be deleted, either.
    let mut turns = Turns::clone(&next.turns);
    turns
        .failed
        .values_mut()
        .for_each(|failed| failed.why = "etcdserver: request is too large".to_owned());
    let message = turns.aside_message("log", "h2").unwrap();
    assert!(
        message.contains("remove annotations or labels from the pod")
            && !message.contains("delete"),
        "{message}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However many pods a tenant has, and whether the apiserver refuses them or not: before the
    /// next pod of a namespace has its turn, no other namespace has two.
    #[test]
    fn no_namespace_keeps_another_waiting(
        counts in prop::collection::vec(1..6_usize, 2..5),
        hostile in 0..12_usize,
        refuses in any::<bool>(),
        max_unavailable in 1..4_usize,
    ) {
        let of_neighbours = counts.iter().enumerate().flat_map(|(at, many)| {
            (0..*many).map(move |n| of(&format!("n{at}"), &format!("p{n}"), "h1"))
        });
        let of_tenant = (0..hostile).map(|n| of("t", &format!("fake{n}"), "h1"));
        let pods = of_neighbours.chain(of_tenant).collect();
        let mut world = World { max_unavailable, ..World::of(pods, if refuses { "fake" } else { "" }) };
        let all = counts.iter().sum::<usize>() + hostile;
        let order: Vec<_> = (0..2 * all).flat_map(|_| world.round(at(0))).collect();
        let again = if refuses { hostile } else { 0 };
        prop_assert_eq!(order.len(), all + again, "each has one turn, and a failed one two: {:?}", order);
        let is_hostile = |uid: &String| uid.starts_with("t/");
        prop_assert!(order[all.min(order.len())..].iter().all(is_hostile), "{:?}", order);
        for (at, many) in counts.iter().enumerate() {
            let prefix = format!("n{at}/");
            let turns: Vec<_> = (0..order.len()).filter(|turn| order[*turn].starts_with(&prefix)).collect();
            prop_assert_eq!(turns.len(), *many);
            let mut from = 0;
            for turn in turns {
                let of_tenant = order[from..turn].iter().filter(|uid| uid.starts_with("t/")).count();
                prop_assert!(of_tenant <= 2, "{} waits for {} pods of the tenant: {:?}", order[turn], of_tenant, order);
                from = turn + 1;
            }
        }
        let is_updated = |pod: &&Value| pod["metadata"]["annotations"][HASH].as_str().unwrap().contains("h2");
        let expected = all - if refuses { hostile } else { 0 };
        prop_assert_eq!(world.pods.iter().filter(is_updated).count(), expected);
    }
}
