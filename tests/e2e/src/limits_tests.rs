use super::*;
use crate::record::tests::pod;
use crate::record::{Change, PodView};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three pods that serve, then these changes, 10 ms apart.
fn rollout(changes: impl IntoIterator<Item = Change>) -> Record {
    let mut record = Record::starting_with(["a", "b", "c"].map(|uid| pod(uid, "old", true)));
    for (at, change) in (100..).step_by(10).zip(changes) {
        record.push(ms(at), change);
    }
    record.since(ms(50))
}

fn broken(limits: &Limits, record: &Record) -> Vec<(Promise, u64)> {
    let at = |v: Violation| (v.promise, v.at.as_millis().try_into().unwrap());
    limits.violations(record).into_iter().map(at).collect()
}

fn limits() -> Limits {
    Limits {
        available: 2,
        active: 3,
        ..Limits::default()
    }
}

#[test]
fn one_at_a_time_keeps_every_promise() {
    let record = rollout([
        Change::Is(pod("a", "old", false)),
        Change::Is(pod("a", "new", false)),
        Change::Is(pod("a", "new", true)),
        Change::Is(pod("b", "new", false)),
    ]);
    let two_new = Limits {
        kept: Some(("new".into(), 1)),
        ..limits()
    };
    assert_eq!(broken(&two_new, &record), []);
}

#[test]
fn two_down_for_an_instant_is_found() {
    let record = rollout([
        Change::Is(pod("a", "new", false)),
        Change::Is(pod("b", "new", false)),
        Change::Is(pod("a", "new", true)),
    ]);
    assert_eq!(broken(&limits(), &record), [(Promise::MaxUnavailable, 110)]);
}

#[test]
fn a_gate_takes_a_pod_out_before_the_kubelet_says_so() {
    let held = |uid| PodView {
        gates: false,
        ..pod(uid, "old", true)
    };
    let record = rollout([Change::Is(held("a")), Change::Is(held("b"))]);
    assert_eq!(broken(&limits(), &record), [(Promise::MaxUnavailable, 110)]);
}

#[test]
fn ready_for_a_shorter_time_than_min_ready_is_not_available() {
    let record = rollout([
        Change::Is(pod("a", "new", false)),
        Change::Is(pod("a", "new", true)),
        Change::Is(pod("b", "new", false)),
    ]);
    let strict = Limits {
        min_ready: ms(30),
        ..limits()
    };
    assert_eq!(broken(&strict, &record), [(Promise::MaxUnavailable, 120)]);
    let lax = Limits {
        min_ready: ms(10),
        ..limits()
    };
    assert_eq!(
        broken(&lax, &record),
        [],
        "a is available again after 10 ms, just when b goes"
    );
}

#[test]
fn a_pod_too_many_is_found_but_a_leaving_one_is_not_counted() {
    let record = rollout([
        Change::Is(PodView {
            terminating: true,
            ..pod("a", "old", true)
        }),
        Change::Is(pod("d", "new", false)),
        Change::Is(pod("e", "new", false)),
        Change::Gone("a".into()),
    ]);
    let most = Limits {
        active: 3,
        ..Limits::default()
    };
    assert_eq!(
        broken(&most, &record),
        [(Promise::MaxSurge, 120), (Promise::MaxSurge, 130)]
    );
}

#[test]
fn fewer_old_pods_than_the_partition_keeps_is_found() {
    let record = rollout([
        Change::Is(pod("a", "new", true)),
        Change::Is(pod("b", "new", true)),
    ]);
    let partition = Limits {
        active: 9,
        kept: Some(("new".into(), 2)),
        ..Limits::default()
    };
    assert_eq!(broken(&partition, &record), [(Promise::Partition, 110)]);
    let text = partition.violations(&record)[0].to_string();
    assert!(
        text.starts_with(
            "at 0.11 s 1 pods were of an old revision, at least 2 are promised by Partition: "
        ),
        "{text}"
    );
    assert!(text.contains("pod-b new serves"), "{text}");
}
