use super::*;

const WAIT: Duration = Duration::from_secs(5);

#[test]
fn single_429_silences_its_own_workload() {
    let (mut quiet, now) = (Quiet::default(), Instant::now());
    for _ in 0..10 {
        quiet.heard("a", now, WAIT, true);
    }
    assert_eq!(quiet.until("a", now), Some(now + WAIT));
    assert_eq!(quiet.until("b", now), None);
    assert_eq!(quiet.until("a", now + WAIT), None);
}

#[test]
fn simultaneous_429s_silence_all_workloads() {
    let (mut quiet, now) = (Quiet::default(), Instant::now());
    for owner in ["a", "b", "c"] {
        assert_eq!(quiet.until("d", now), None);
        quiet.heard(owner, now, WAIT, true);
    }
    assert_eq!(quiet.until("d", now), Some(now + WAIT));
}

#[test]
fn successive_429s_silence_each_workload_alone() {
    let (mut quiet, start) = (Quiet::default(), Instant::now());
    for (owner, seconds) in [("a", 0), ("b", 2), ("c", 4), ("d", 6)] {
        let now = start + Duration::from_secs(seconds);
        quiet.heard(owner, now, WAIT, true);
        assert_eq!(quiet.until("z", now), None);
    }
    assert_eq!(quiet.owners.len(), 3, "a's time is over");
}

#[test]
fn the_longest_silence_counts() {
    let (mut quiet, now) = (Quiet::default(), Instant::now());
    quiet.heard("a", now, WAIT, true);
    quiet.heard("a", now, WAIT / 5, true);
    assert_eq!(quiet.until("a", now), Some(now + WAIT));
}

#[test]
fn budget_429_silences_its_own_workload_alone() {
    let (mut quiet, now) = (Quiet::default(), Instant::now());
    for owner in ["a", "b", "c", "d"] {
        quiet.heard(owner, now, WAIT, false);
    }
    assert_eq!(
        (quiet.until("a", now), quiet.until("z", now)),
        (Some(now + WAIT), None)
    );
    // With an overloaded server, the 429s of budgets do not count either.
    quiet.heard("e", now, WAIT, true);
    quiet.heard("f", now, WAIT, true);
    assert_eq!(quiet.until("z", now), None);
    quiet.heard("a", now, WAIT, true);
    assert_eq!(quiet.until("z", now), Some(now + WAIT));
}
