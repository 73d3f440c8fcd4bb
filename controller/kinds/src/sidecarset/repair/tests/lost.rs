//! How far repair stops where workloads make no other pods, or pods that lack the containers, too.

use super::*;

/// The pod in this namespace.
fn within(namespace: &str, mut pod: Value) -> Value {
    pod["metadata"]["namespace"] = json!(namespace);
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    pod["metadata"]["uid"] = json!(format!("{namespace}/{name}"));
    pod
}

/// A pod that was created later, and lacks the containers, too.
fn bad(name: &str, owner: &str) -> Value {
    let mut pod = bare_of(name, owner);
    pod["metadata"]["creationTimestamp"] = json!("2026-01-04T00:00:00Z");
    pod
}

/// The entry of a workload that made no other pod, or stopped so often, at this second.
fn entry(namespace: &str, owner: &str, stops: i32, second: i64) -> Value {
    let lost = json!({"namespace": namespace, "pod": "x", "owner": owner, "newest": "2026-01-03T00:00:00Z"});
    let mut lost = lost;
    if stops > 0 {
        lost["stops"] = json!(stops);
        lost["stopped"] = json!(Timestamp::from_second(second).unwrap());
    }
    lost
}

/// The status after a turn of the pod `x` of this namespace, with these entries.
fn after(namespace: &str, lost: &[Value]) -> Value {
    json!({"repair": {"namespace": namespace, "pod": "x", "uid": "x", "owner": "x", "over": true, "lost": lost}})
}

#[test]
fn bare_successor_stops_repair_of_its_workload_only() {
    let (a, b) = (
        within("t1", bare_of("a", "bad")),
        within("t1", bare_of("b", "bad")),
    );
    let others = [
        within("t1", bare_of("c", "good")),
        within("victim", bare_of("v", "web")),
    ];
    let begun = round_at(0, &Value::Null, &[&[a, b.clone()], &others[..]].concat()).1;
    assert_eq!(begun["repair"]["pod"], "a");
    let pods = [&[b, within("t1", bad("a2", "bad"))], &others[..]].concat();
    let (plan, stopped) = round_at(10, &begun, &pods);
    let told = plan
        .events
        .iter()
        .find(|event| event.reason == "RepairStopped")
        .unwrap();
    assert!(
        told.warning
            && told
                .message
                .contains("pod t1/a2, which came in place of t1/a,"),
        "{told:?}"
    );
    assert_eq!(
        (
            &stopped["repair"]["over"],
            &stopped["repair"]["lost"][0]["stops"]
        ),
        (&json!(true), &json!(1))
    );
    // Other namespaces, and other workloads of this one, go on.
    let next = round_at(11, &stopped, &pods).1;
    assert_eq!(
        (&next["repair"]["pod"], &next["repair"]["lost"][0]["owner"]),
        (&json!("v"), &json!("bad"))
    );
    let (plan, next) = round_at(12, &after("victim", &[entry("t1", "bad", 1, 10)]), &pods);
    assert_eq!(next["repair"]["pod"], "c");
    let waits = plan
        .waiting
        .iter()
        .find(|waiting| waiting.pod == "t1/b")
        .unwrap();
    assert!(
        waits
            .reason
            .contains("the pod that its workload made in place of pod x lacks the containers, too"),
        "{waits:?}"
    );
}

#[test]
fn stopped_workload_is_tried_again_ever_later() {
    let pods = [bare_of("b", "rs"), bad("c", "rs")];
    for (stops, pause) in [(1, 60), (2, 120), (3, 240), (7, 3600), (20, 3600)] {
        let status = after("default", &[entry("default", "rs", stops, 1000)]);
        let (plan, waits) = round_at(1000 + pause - 1, &status, &pods);
        assert_eq!(condition(&waits).0, "Idle", "{stops}: {waits:#}");
        assert_eq!(
            plan.look_again,
            Some(SignedDuration::from_secs(1)),
            "{stops}"
        );
        let next = round_at(1000 + pause, &status, &pods).1;
        assert_eq!(
            (&next["repair"]["pod"], &next["repair"]["lost"][0]["stops"]),
            (&json!("b"), &json!(stops))
        );
        // It lacks the same once more.
        let gone = [bad("c", "rs"), {
            let mut d = bad("d", "rs");
            d["metadata"]["creationTimestamp"] = json!("2026-01-05T00:00:00Z");
            d
        }];
        let again = round_at(1000 + pause, &next, &gone).1;
        assert_eq!(again["repair"]["lost"][0]["stops"], stops + 1, "{again:#}");
    }
    // A successor that has the containers ends it.
    let status = after("default", &[entry("default", "rs", 5, 1000)]);
    let next = round_at(
        1001,
        &status,
        &[bare_of("b", "rs"), successor_of("d", "rs", true)],
    )
    .1;
    assert_eq!(
        (&next["repair"]["pod"], &next["repair"]["lost"]),
        (&json!("b"), &Value::Null)
    );
}

#[test]
fn namespaces_stop_alone_until_three_have_stopped() {
    let of = |namespace: &str, owner: &str| within(namespace, bad(&format!("of-{owner}"), owner));
    let victim = || within("victim", bare_of("v", "web"));
    let of_one: Vec<_> = (0..40)
        .map(|n| {
            (
                entry("t1", &format!("o{n}"), 1, 1000),
                of("t1", &format!("o{n}")),
            )
        })
        .collect();
    let of_many = |namespaces: usize, stops: i32| -> Vec<_> {
        let of_one = |n: usize| {
            (
                entry(&format!("t{n}"), "o", stops, 1000),
                of(&format!("t{n}"), "o"),
            )
        };
        (0..namespaces).map(of_one).collect()
    };
    let missing: Vec<_> = (0..40)
        .map(|n| {
            (
                entry("t1", &format!("o{n}"), 0, 0),
                of("t1", &format!("o{n}")),
            )
        })
        .collect();
    for (what, lost, expected) in [
        (
            "forty workloads of one namespace have stopped",
            of_one,
            "Replacing",
        ),
        (
            "forty workloads of one namespace make no other",
            missing,
            "Replacing",
        ),
        ("two namespaces have stopped", of_many(2, 1), "Replacing"),
        ("three have", of_many(3, 1), "Stopped"),
        (
            "workloads of fifteen make no other",
            of_many(15, 0),
            "Replacing",
        ),
        ("those of sixteen", of_many(16, 0), "Waiting"),
    ] {
        let (entries, mut pods): (Vec<_>, Vec<_>) = lost.into_iter().unzip();
        pods.push(victim());
        let (plan, next) = round_at(1030, &after("t0", &entries), &pods);
        assert_eq!(condition(&next).0, expected, "{what}: {next:#}");
        let told = plan
            .events
            .iter()
            .filter(|event| event.reason == "RepairStopped")
            .count();
        assert_eq!(told, usize::from(expected == "Stopped"), "{what}");
        if expected == "Stopped" {
            // The status says so once. Then repair tries pods of these workloads again, and no
            // other.
            let (plan, again) = round_at(1031, &next, &pods);
            assert_eq!((plan.events.len(), &again), (0, &next), "{what}");
            assert_eq!(
                plan.look_again,
                Some(SignedDuration::from_secs(29)),
                "{what}"
            );
            assert_eq!(
                round_at(1060, &next, &pods).1["repair"]["namespace"],
                "t1",
                "{what}"
            );
        }
    }
}

#[test]
fn namespace_stops_after_three_workloads() {
    let new = || within("t1", bare_of("new", "another"));
    for (many, is_taken) in [(2, true), (3, false)] {
        let owners: Vec<_> = (0..many).map(|n| format!("o{n}")).collect();
        let entries: Vec<_> = owners
            .iter()
            .map(|owner| entry("t1", owner, 0, 0))
            .collect();
        let of_lost = owners
            .iter()
            .map(|owner| within("t1", bare_of(&format!("of-{owner}"), owner)));
        let pods: Vec<_> = of_lost.chain([new()]).collect();
        let (plan, next) = round_at(10, &after("t1", &entries), &pods);
        assert_eq!(next["repair"]["pod"] == "new", is_taken, "{many}: {next:#}");
        let says = plan.waiting.iter().any(|waiting| {
            waiting
                .reason
                .contains("workloads of its namespace have made no other")
        });
        assert_eq!(says, !is_taken, "{many}");
    }
}

#[test]
fn repair_takes_pods_of_namespaces_in_turns() {
    let pods: Vec<_> = ["a1", "a2", "a3"]
        .map(|name| within("a", bare_of(name, name)))
        .into_iter()
        .chain([
            within("b", bare_of("b1", "b1")),
            within("c", bare_of("c1", "c1")),
        ])
        .collect();
    let refused = |status: &Value| {
        let mut status = status.clone();
        status["repair"]["over"] = json!(true);
        status
    };
    let (mut status, mut order, mut turns) = (Value::Null, Vec::new(), Arc::<Turns>::default());
    for second in 0..8 {
        // No replacement succeeds, because the apiserver refuses each.
        let now = Timestamp::from_second(100 * second).unwrap();
        let snapshot = Snapshot {
            turns: turns.clone(),
            ..asked("Missed", json!({}), &status, &pods)
        };
        let plan = decide(&snapshot, now);
        status = refused(&json!(super::super::super::status(
            &snapshot,
            &plan,
            &Outcome::default(),
            now
        )));
        turns = Arc::new(turns.after(&snapshot, &plan, &Outcome::default(), now));
        order.push(status["repair"]["pod"].as_str().unwrap().to_owned());
    }
    assert_eq!(order, ["a1", "b1", "c1", "a2", "b1", "c1", "a3", "b1"]);
}
