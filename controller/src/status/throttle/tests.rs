use super::*;

#[test]
fn status_is_written_once_a_second_unless_urgent() {
    let milliseconds = Duration::from_millis;
    for (old, new, since, wait) in [
        (None, Some(0), None, 0),
        (Some(0), Some(1), None, 0),
        (Some(0), Some(1), Some(0), 1000),
        (Some(0), Some(1), Some(999), 1),
        (Some(0), Some(1), Some(1000), 0),
        (Some(0), Some(1), Some(u64::from(u32::MAX)), 0),
        (None, Some(1), Some(400), 600),
        (Some(1), Some(1), Some(0), 0),
        (None, None, Some(0), 0),
    ] {
        let told = since.map(milliseconds);
        let what = format!("{old:?} {new:?} {told:?}");
        assert_eq!(
            waits(&old, &new, (told, PACE), nothing_is_urgent),
            milliseconds(wait),
            "{what}"
        );
        let sooner = milliseconds(wait).saturating_sub(milliseconds(750));
        assert_eq!(
            waits(&old, &new, (told, awaited_pace(1000)), nothing_is_urgent),
            sooner,
            "awaited: {what}"
        );
        assert_eq!(
            waits(&old, &new, (told, PACE), |_, _| true),
            Duration::ZERO,
            "urgent: {what}"
        );
    }
}

#[test]
fn awaited_status_pace_grows_with_pod_count() {
    for (pods, pace) in [
        (0, 100),
        (10, 101),
        (1000, 250),
        (6000, 1000),
        (usize::MAX, 1000),
    ] {
        assert_eq!(awaited_pace(pods), Duration::from_millis(pace), "{pods}");
    }
}

#[test]
fn old_writes_are_forgotten() {
    let status_throttle = StatusThrottle::default();
    assert_eq!(status_throttle.since("a"), None);
    status_throttle.note("a");
    assert!(status_throttle.since("a").is_some_and(|since| since < PACE));
    *status_throttle.written.lock().get_mut("a").unwrap() =
        Instant::now().checked_sub(PACE).unwrap();
    status_throttle.note("b");
    assert!(status_throttle.since("a").is_none() && status_throttle.since("b").is_some());
}

#[test]
fn the_sooner_of_two_looks_counts_unless_something_failed() {
    let after = |seconds| Next::After(Duration::from_secs(seconds));
    let failed = || Next::Retry("no".to_owned());
    for (next, expected) in [
        (Next::Done, after(2)),
        (after(1), after(1)),
        (after(3), after(2)),
        (failed(), failed()),
    ] {
        assert_eq!(at_latest(next, Duration::from_secs(2)), expected);
    }
}
