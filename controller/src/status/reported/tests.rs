use super::*;

#[test]
fn each_version_is_told_of_once_until_it_can_be_read() {
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
