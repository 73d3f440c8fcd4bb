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
    for (failures, injection_calls, pause) in [
        (0, InjectionCalls::Yes, 60),
        (1, InjectionCalls::Unknown, 1),
        (2, InjectionCalls::Unknown, 2),
        (3, InjectionCalls::Unanswered("no".to_owned()), 4),
        (7, InjectionCalls::Unanswered("no".to_owned()), 60),
        (u32::MAX, InjectionCalls::Unanswered("no".to_owned()), 60),
    ] {
        let calls = of(failures);
        assert_eq!(
            (calls.injection_calls(), calls.due_after(1, at).as_secs()),
            (injection_calls, pause),
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
