//! Namespaces share the slots, and a pull without new bytes gives its slot back.

use k8s_openapi::api::core::v1::ObjectReference;

use super::*;

pub(super) fn owned(namespaces: &[&str], tag: ImageTagSpec) -> ImageTagSpec {
    let owner = |namespace: &&str| ObjectReference {
        kind: Some("ImagePullJob".into()),
        namespace: Some((*namespace).to_owned()),
        ..ObjectReference::default()
    };
    ImageTagSpec {
        owner_references: namespaces.iter().map(owner).collect(),
        ..tag
    }
}

fn asked(namespace: &str, second: i64) -> ImageTagSpec {
    owned(
        &[namespace],
        ImageTagSpec {
            created_at: Some(Time(at(second))),
            ..limited("1", 3600, 3, None)
        },
    )
}

fn images(plan: &Plan) -> Vec<&str> {
    plan.start
        .iter()
        .map(|start| start.key.image.as_str())
        .collect()
}

#[test]
fn free_slots_are_for_the_namespace_with_the_fewest_pulls() {
    let mut node = Node::new(spec(&[
        ("a1", asked("a", 1)),
        ("a2", asked("a", 2)),
        ("a3", asked("a", 3)),
    ]));
    node.spec.images.extend(
        spec(&[
            ("b1", asked("b", 8)),
            ("c1", asked("c", 9)),
            ("c2", asked("c", 9)),
        ])
        .images,
    );
    let plan = node.begin(10);
    assert_eq!(
        images(&plan),
        ["a1", "b1"],
        "the oldest first, and then another namespace's"
    );
    let mut running: Vec<u64> = plan.start.iter().map(|start| start.attempt).collect();
    let mut order = Vec::new();
    for second in 11..15 {
        node.tasks.ended(
            running.remove(0),
            Outcome::Pulled(resolved("x")),
            now(second),
        );
        let plan = node.step(second);
        order.extend(images(&plan).into_iter().map(str::to_owned));
        running.extend(plan.start.iter().map(|start| start.attempt));
    }
    assert_eq!(
        order,
        ["c1", "a2", "c2", "a3"],
        "the longest waiting image is next"
    );
}

#[test]
fn namespace_with_all_slots_yields_one_to_another() {
    let mut node = Node::new(spec(&[
        ("a1", asked("a", 1)),
        ("a2", asked("a", 2)),
        ("a3", asked("a", 3)),
    ]));
    let first = node.begin(10);
    assert_eq!(images(&first), ["a1", "a2"]);
    for start in &first.start {
        // A registry that sends a byte now and then.
        node.tasks
            .progressed(start.attempt, Bytes { done: 1, total: 9 }, now(11));
    }
    node.spec
        .images
        .extend(spec(&[("victim", asked("b", 12))]).images);
    let plan = node.begin(12);
    assert_eq!((images(&plan), plan.wake_at), (vec![], Some(steady(70))));
    for start in &first.start {
        node.tasks
            .progressed(start.attempt, Bytes { done: 2, total: 9 }, now(69));
    }
    let plan = node.step(70);
    assert_eq!((plan.cancel.len(), images(&plan)), (1, vec!["victim"]));
    let given = first
        .start
        .iter()
        .find(|start| plan.cancel.contains(&start.attempt))
        .unwrap()
        .key
        .clone();
    let told = node.tag(&given.image, &given.tag);
    assert_eq!(told.phase, ImagePullPhase::Pulling);
    assert!(
        told.message.contains("its slot went to"),
        "{}",
        told.message
    );
    // It is no failure, and one slot each is an even share: no further slot is taken.
    node.spec
        .images
        .extend(spec(&[("victim2", asked("b", 12))]).images);
    let next = node.begin(200);
    assert_eq!((next.cancel.len(), images(&next)), (0, vec![]));
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Pulled(resolved("x")),
        now(201),
    );
    assert_eq!(images(&node.step(201)), ["victim2"]);
    assert_eq!(node.status.failed, 0);
}

#[test]
fn a_pull_without_new_bytes_fails_if_it_holds_up_another() {
    let bytes = |done| Bytes { done, total: 9 };
    // The bytes of both tries at which second, and how many have given up at second 100.
    let table = [
        (
            "no answer from the registry",
            vec![(10, Bytes::default())],
            1,
        ),
        (
            "it stopped in the middle",
            vec![(10, bytes(1)), (20, bytes(3)), (90, bytes(3))],
            1,
        ),
        ("it goes on", vec![(10, bytes(1)), (90, bytes(2))], 0),
        (
            "all bytes are here: it is unpacked",
            vec![(10, bytes(1)), (20, bytes(9))],
            0,
        ),
        ("the runtime tells no bytes", vec![], 0),
    ];
    for (what, seen, given_up) in table {
        let mut node = Node::new(spec(&[("a1", asked("a", 1)), ("b1", asked("b", 1))]));
        let first = node.begin(10);
        for (second, bytes) in seen {
            first
                .start
                .iter()
                .for_each(|start| node.tasks.progressed(start.attempt, bytes, now(second)));
        }
        let alone = node.step(100);
        assert_eq!(
            (alone.cancel.len(), alone.wake_at),
            (0, Some(steady(3610))),
            "{what}: no image waits"
        );
        node.spec
            .images
            .extend(spec(&[("c1", asked("c", 99))]).images);
        let plan = node.begin(100);
        assert_eq!(images(&plan).len(), given_up, "{what}");
        if given_up == 1 {
            let failed = first
                .start
                .iter()
                .find(|start| plan.cancel.contains(&start.attempt))
                .unwrap();
            let told = node.tag(&failed.key.image, "1").message;
            assert!(
                told.contains("try 1 of 4 failed") && told.contains("no bytes came for 60 s"),
                "{what}: {told}"
            );
        }
    }
}

#[test]
fn a_stalled_pull_is_looked_at_when_its_time_is_over() {
    let mut node = Node::new(spec(&[
        ("a1", asked("a", 1)),
        ("b1", asked("b", 1)),
        ("c1", asked("c", 2)),
    ]));
    let plan = node.begin(10);
    node.tasks
        .progressed(plan.start[0].attempt, Bytes { done: 1, total: 9 }, now(15));
    assert_eq!(node.step(20).wake_at, Some(steady(75)));
    assert_eq!(node.step(75).cancel, [plan.start[0].attempt]);
}

#[test]
fn a_pull_of_two_namespaces_takes_the_share_of_one() {
    let both = owned(&["a", "b"], limited("1", 60, 3, None));
    let mut node = Node::new(spec(&[
        ("both", both),
        ("c1", asked("c", 1)),
        ("c2", asked("c", 2)),
    ]));
    let plan = node.begin(10);
    assert_eq!(images(&plan), ["both", "c1"]);
    node.spec
        .images
        .extend(spec(&[("b1", asked("b", 3))]).images);
    node.begin(11);
    node.tasks.ended(
        plan.start[1].attempt,
        Outcome::Pulled(resolved("x")),
        now(12),
    );
    assert_eq!(
        images(&node.step(12)),
        ["b1"],
        "the shared pull began in a's turn"
    );
}

#[test]
fn limits_beyond_the_maximum_are_the_maximum() {
    let policy = Policy::of(&limited("1", i32::MAX, i32::MAX, None));
    assert_eq!(
        (policy.timeout, policy.backoff_limit),
        (Duration::from_secs(3600), 100)
    );
    let mut node = Node::new(spec(&[("app", limited("1", i32::MAX, 0, None))]));
    assert_eq!(node.begin(0).wake_at, Some(steady(3600)));
}

#[test]
fn more_namespaces_than_slots_take_turns() {
    let mut node = Node::new(spec(&[
        ("a1", asked("a", 1)),
        ("b1", asked("b", 1)),
        ("c1", asked("c", 2)),
    ]));
    let first = node.begin(10);
    assert_eq!(images(&first), ["a1", "b1"]);
    // Registries that send a byte now and then, for hours.
    let drip = |node: &mut Node, plan: &Plan, second: i64| {
        plan.start.iter().for_each(|start| {
            node.tasks.progressed(
                start.attempt,
                Bytes {
                    done: second.unsigned_abs(),
                    total: 9_999,
                },
                now(second),
            );
        });
    };
    for second in [60, 119, 178, 237, 296] {
        drip(&mut node, &first, second);
        let plan = node.step(second);
        assert_eq!(
            (plan.cancel.len(), plan.wake_at.is_some()),
            (0, true),
            "at second {second}"
        );
    }
    let plan = node.step(310);
    assert_eq!((plan.cancel.len(), images(&plan)), (1, vec!["c1"]));
    assert_eq!(node.status.failed, 0);
}
