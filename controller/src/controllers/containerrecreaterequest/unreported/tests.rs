use super::*;

#[test]
fn a_stop_waits_for_two_seconds_and_what_else_is_new_does_not() {
    let unreported = Unreported::default();
    assert_eq!(unreported.waits("a", false), None);
    assert!(
        unreported
            .waits("a", true)
            .is_some_and(|left| left <= WITH_START)
    );
    let long_ago = Instant::now().checked_sub(WITH_START).unwrap();
    unreported.0.lock().insert("a".to_owned(), long_ago);
    assert_eq!(unreported.waits("a", true), None);
    // The next stop of the same request waits anew.
    assert_eq!(unreported.waits("a", false), None);
    assert!(unreported.waits("a", true).is_some());
    unreported.forget("a");
    assert!(unreported.0.lock().is_empty());
}
