use super::*;

#[test]
fn call_failure_is_reported_after_three_in_a_row() {
    let at = Instant::now();
    let of = |failures: u32| {
        let why = (failures > 0).then(|| "no".to_owned());
        Calls {
            selectors: String::new(),
            at,
            failures,
            why,
        }
    };
    for (failures, asked, pause) in [
        (0, Asked::Yes, 60),
        (1, Asked::Unknown, 1),
        (2, Asked::Unknown, 2),
        (3, Asked::Unanswered("no".to_owned()), 4),
        (7, Asked::Unanswered("no".to_owned()), 60),
        (u32::MAX, Asked::Unanswered("no".to_owned()), 60),
    ] {
        let calls = of(failures);
        assert_eq!(
            (calls.asked(), calls.due_after(1, at).as_secs()),
            (asked, pause),
            "{failures}"
        );
    }
    assert_eq!(
        of(0).due_after(2000, at).as_secs(),
        2000,
        "one dry run a second at most"
    );
    assert!(of(0).due_after(1, at + FRESH).is_zero());
}
