use super::*;

#[test]
fn names_are_checked() {
    for name in ["a", "e2e-1", &"a".repeat(40)] {
        check_name(name).unwrap();
    }
    for name in ["", "-a", "A", "a b", "../a", "a.lock", &"a".repeat(41)] {
        assert!(check_name(name).is_err(), "{name}");
    }
}
