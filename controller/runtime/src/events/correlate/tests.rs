use super::*;
use crate::object::CLONE_SETS;

fn owner(uid: &str) -> Owner {
    Owner {
        resource: CLONE_SETS,
        namespace: "ns".into(),
        name: "web".into(),
        uid: uid.into(),
    }
}

fn event(reason: &'static str, message: &str) -> Event {
    Event {
        warning: false,
        reason,
        message: message.into(),
    }
}

#[test]
fn equal_events_are_counted() {
    let (mut correlator, now) = (Correlator::default(), Instant::now());
    let Decision::Create(first) = correlator.correlate(&owner("u"), &event("Scaled", "up"), now)
    else {
        panic!()
    };
    assert!(first.name.starts_with("web.") && first.count == 1);
    for count in 2..5 {
        let decision = correlator.correlate(&owner("u"), &event("Scaled", "up"), now);
        assert_eq!(
            decision,
            Decision::Count(Series {
                count,
                ..first.clone()
            })
        );
    }
    let another = correlator.correlate(&owner("u2"), &event("Scaled", "up"), now);
    assert!(matches!(another, Decision::Create(series) if series.name != first.name));
}

#[test]
fn many_messages_of_one_reason_become_one() {
    let (mut correlator, now) = (Correlator::default(), Instant::now());
    let decisions: Vec<_> = (0..14)
        .map(|n| correlator.correlate(&owner("u"), &event("Created", &format!("pod {n}")), now))
        .collect();
    assert!(
        decisions[..10]
            .iter()
            .all(|decision| matches!(decision, Decision::Create(series) if series.count == 1))
    );
    assert!(
        matches!(&decisions[10], Decision::Create(series) if series.message == "(combined from similar events): pod 10")
    );
    assert!(matches!(&decisions[13], Decision::Count(series) if series.count == 4));
}

#[test]
fn a_noisy_object_is_silenced_alone() {
    let (mut correlator, now) = (Correlator::default(), Instant::now());
    let mut sent = |uid: &str, now| {
        (0..100)
            .filter(|_| {
                correlator.correlate(&owner(uid), &event("Failed", "x"), now) != Decision::Drop
            })
            .count()
    };
    assert_eq!(sent("u", now), 25);
    assert_eq!(sent("u", now + REFILL), 1);
    assert_eq!(sent("u", now + REFILL * 3), 2);
    assert_eq!(sent("u2", now), 25);
    assert_eq!(sent("u", now + REFILL * 1000), 25);
}

#[test]
fn memory_is_bounded() {
    let (mut correlator, now) = (Correlator::default(), Instant::now());
    for n in 0..5000 {
        let now = now + Duration::from_millis(n);
        correlator.correlate(
            &owner(&n.to_string()),
            &event("Created", &n.to_string()),
            now,
        );
    }
    assert!(correlator.series.len() <= REMEMBERED);
    assert!(correlator.groups.len() <= REMEMBERED);
    assert!(correlator.buckets.len() <= REMEMBERED);
}
