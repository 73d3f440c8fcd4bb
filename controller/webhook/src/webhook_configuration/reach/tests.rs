use super::*;

/// Tries this often; true while it stays ready.
fn after(
    reach: &mut Reach,
    proofs: &[Proof],
    mut connections: impl FnMut() -> u64,
    now: Instant,
) -> bool {
    proofs
        .iter()
        .all(|proof| reach.tried(*proof, connections(), now))
}

#[test]
fn a_replica_that_the_apiserver_reaches_no_more_is_not_ready() {
    let (mut reach, now) = (Reach::default(), Instant::now());
    assert!(after(&mut reach, &[Proof::Unreached; 2], || 7, now));
    assert!(!after(&mut reach, &[Proof::Unreached], || 7, now));
}

#[test]
fn a_slow_proof_takes_no_replica_out_of_service() {
    let (mut reach, now) = (Reach::default(), Instant::now());
    let slow_now_and_then = [Proof::Unreached, Proof::Unreached, Proof::Works].repeat(50);
    assert!(after(&mut reach, &slow_now_and_then, || 7, now));
}

#[test]
fn connected_replica_stays_ready_when_proofs_fail() {
    let (mut reach, now, mut connections) = (Reach::default(), Instant::now(), 0);
    let connects_now_and_then = || {
        connections += 1;
        connections / 2
    };
    assert!(after(
        &mut reach,
        &[Proof::Unreached; 100],
        connects_now_and_then,
        now
    ));
}

#[test]
fn an_apiserver_that_is_away_takes_no_replica_out_of_service() {
    let (mut reach, now) = (Reach::default(), Instant::now());
    assert!(after(&mut reach, &[Proof::Untried; 100], || 7, now));
}

#[test]
fn unreached_replica_becomes_ready_with_backoff() {
    let (mut reach, start) = (Reach::default(), Instant::now());
    for wait in [STAND_IN_AFTER, STAND_IN_AFTER * 2, STAND_IN_AFTER * 4] {
        assert!(
            reach.is_ready(false, start),
            "it was never cut off, or came back"
        );
        assert!(!after(&mut reach, &[Proof::Unreached; 3], || 7, start));
        let before = start + wait - Duration::from_secs(1);
        assert_eq!(
            [reach.is_ready(false, before), reach.is_ready(true, before)],
            [false, true]
        );
        assert!(reach.is_ready(false, start + wait));
        reach.begins(start);
    }
}

#[test]
fn failed_proof_shortens_the_proof_interval() {
    let (mut reach, now) = (Reach::default(), Instant::now());
    reach.begins(now);
    assert_eq!(reach.next_proof_in(now), PROVE_EVERY);
    reach.tried(Proof::Unreached, 0, now);
    assert_eq!(reach.next_proof_in(now), PROVE_SOON);
    assert_eq!(reach.next_proof_in(now + PROVE_EVERY), Duration::ZERO);
}
