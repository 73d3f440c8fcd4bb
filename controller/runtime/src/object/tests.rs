use super::*;

#[test]
fn versions_compare_as_numbers_or_not_at_all() {
    assert_eq!(compare_versions("9", "10"), Some(Ordering::Less));
    assert_eq!(compare_versions("10", "10"), Some(Ordering::Equal));
    assert_eq!(compare_versions("x", "x"), Some(Ordering::Equal));
    assert_eq!(compare_versions("x", "10"), None);
    assert_eq!(compare_versions("", "10"), None);
}
