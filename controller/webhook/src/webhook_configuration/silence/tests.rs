use super::*;

/// At which of the tries a silence becomes long. Each try begins and ends at a second, without an
/// answer.
fn becomes_long(tries: &[(u64, u64)]) -> Vec<usize> {
    let (start, mut silence) = (Instant::now(), Silence::default());
    let at = |seconds| start + Duration::from_secs(seconds);
    let long = tries
        .iter()
        .enumerate()
        .filter(|(_, (began, now))| silence.unanswered(at(*began), at(*now)));
    let long: Vec<_> = long.map(|(n, _)| n).collect();
    assert_eq!(silence.is_long(), !long.is_empty());
    assert_eq!(
        [silence.ends(), silence.ends(), silence.is_long()],
        [!long.is_empty(), false, false]
    );
    long
}

#[test]
fn silence_is_long_after_a_minute_and_three_tries() {
    assert_eq!(
        becomes_long(&[(0, 10), (11, 21), (22, 59), (60, 61), (62, 63)]),
        [3]
    );
    assert_eq!(
        becomes_long(&[(0, 10), (30, 60), (90, 90)]),
        [2],
        "one try or two may hang"
    );
    assert!(
        becomes_long(&[(0, 1), (2, 3), (4, 59)]).is_empty(),
        "an apiserver may start again"
    );
    assert!(becomes_long(&[]).is_empty());
}
