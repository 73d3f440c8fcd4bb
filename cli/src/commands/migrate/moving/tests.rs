use serde_json::json;

use super::*;

const fn replicas(wanted: i64, existing: i64, available: i64) -> Replicas {
    Replicas {
        wanted,
        existing,
        available,
        is_current: true,
    }
}

#[test]
fn numbers_come_from_spec_and_status() {
    let object = json!({
        "metadata": {"generation": 2},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "replicas": 2, "availableReplicas": 1},
    });
    let expected = Replicas {
        is_current: false,
        ..replicas(3, 2, 1)
    };
    assert_eq!(Replicas::of(&object), expected);
    assert_eq!(Replicas::of(&json!({})), replicas(1, 0, 0));
}

#[test]
fn source_shrinks_when_new_pods_are_available() {
    let goal = Goal::new(&replicas(3, 3, 3), &replicas(1, 1, 1), None, 2);
    let wait = |source, target| matches!(goal.step(&source, &target), Step::Wait(_));
    assert_eq!(
        goal.step(&replicas(3, 3, 3), &replicas(1, 1, 1)),
        Step::ScaleTarget(3)
    );
    assert!(wait(replicas(3, 3, 3), replicas(3, 3, 2)));
    assert_eq!(
        goal.step(&replicas(3, 3, 3), &replicas(3, 3, 3)),
        Step::ScaleSource(1)
    );
    assert!(wait(replicas(1, 2, 2), replicas(3, 3, 3)));
    assert_eq!(
        goal.step(&replicas(1, 1, 1), &replicas(3, 3, 3)),
        Step::ScaleTarget(4)
    );
    assert_eq!(
        goal.step(&replicas(1, 1, 1), &replicas(4, 4, 4)),
        Step::ScaleSource(0)
    );
    assert_eq!(
        goal.step(&replicas(0, 0, 0), &replicas(4, 4, 4)),
        Step::Done
    );
    let stale = Replicas {
        is_current: false,
        ..replicas(4, 4, 4)
    };
    assert!(wait(replicas(0, 0, 0), stale));
}

#[test]
fn pods_are_never_fewer_than_before() {
    for from in 0..6 {
        for onto in 0..3 {
            for surge in 1..4 {
                for moved in [None, Some(0), Some(2), Some(9)] {
                    run(from, onto, surge, moved);
                }
            }
        }
    }
}

/// Moves pods in a cluster where each step takes a while.
fn run(from: i64, onto: i64, surge: i64, moved: Option<i64>) {
    let (mut source, mut target) = (replicas(from, from, from), replicas(onto, onto, onto));
    let goal = Goal::new(&source, &target, moved, surge);
    for _ in 0..100 {
        let case = format!("{from} {onto} {surge} {moved:?}: {source:?} {target:?}");
        let wanted = source.wanted + target.wanted;
        assert_eq!(
            source.wanted + goal.matching(&source),
            from + onto,
            "{case}"
        );
        assert!(
            (from + onto..=from + onto + surge).contains(&wanted),
            "{case}"
        );
        assert!(
            source.available.min(source.wanted) + target.available >= from + onto,
            "{case}"
        );
        match goal.step(&source, &target) {
            Step::Done => {
                let moved = moved.unwrap_or(from).min(from);
                assert_eq!(
                    (source.wanted, target.wanted),
                    (from - moved, onto + moved),
                    "{case}"
                );
                return;
            }
            Step::ScaleSource(to) => source.wanted = to,
            Step::ScaleTarget(to) => target.wanted = to,
            Step::Wait(_) => {
                if target.available < target.wanted {
                    target.available += 1;
                    target.existing = target.available;
                } else {
                    source.existing -= 1;
                    source.available = source.existing;
                }
            }
        }
    }
    panic!("does not end: {from} {onto} {surge} {moved:?}");
}
