use super::*;

#[test]
fn each_version_is_reported_once_until_forgotten() {
    let (reported, key) = (Reported::default(), Key::new("default", "web"));
    assert!(!reported.was_reported(&key, "1"));
    reported.note(&key, "1");
    assert_eq!(
        [
            reported.was_reported(&key, "1"),
            reported.was_reported(&key, "2")
        ],
        [true, false]
    );
    reported.forget(&key);
    assert!(!reported.was_reported(&key, "1"));
}
