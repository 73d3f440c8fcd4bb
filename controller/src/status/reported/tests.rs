use super::*;

#[test]
fn each_version_is_reported_once_until_forgotten() {
    let (told, key) = (Reported::default(), Key::new("default", "web"));
    assert!(!told.was_told(&key, "1"));
    told.note(&key, "1");
    assert_eq!(
        [told.was_told(&key, "1"), told.was_told(&key, "2")],
        [true, false]
    );
    told.forget(&key);
    assert!(!told.was_told(&key, "1"));
}
