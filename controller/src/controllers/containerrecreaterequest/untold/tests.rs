use super::*;

#[test]
fn a_stop_waits_for_two_seconds_and_what_else_is_new_does_not() {
    let untold = Untold::default();
    assert_eq!(untold.waits("a", false), None);
    assert!(
        untold
            .waits("a", true)
            .is_some_and(|left| left <= WITH_START)
    );
    let long_ago = Instant::now().checked_sub(WITH_START).unwrap();
    untold.0.lock().insert("a".to_owned(), long_ago);
    assert_eq!(untold.waits("a", true), None);
    // The next stop of the same request waits anew.
    assert_eq!(untold.waits("a", false), None);
    assert!(untold.waits("a", true).is_some());
    untold.forget("a");
    assert!(untold.0.lock().is_empty());
}
