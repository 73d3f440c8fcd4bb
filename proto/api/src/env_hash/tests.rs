use super::*;

#[test]
fn values_differ_or_do_not() {
    assert_eq!(of_value(""), "cbf29ce484222325");
    assert_eq!(of_value("a"), "af63dc4c8601ec8c");
    assert_ne!(of_value("a"), of_value("b"));
}

#[test]
fn the_json_is_that_of_go() {
    assert_eq!(variable("A", "x<y"), r#"{"name":"A","value":"x\u003cy"}"#);
    assert_eq!(variable("A", ""), r#"{"name":"A"}"#);
}

/// As a Go program counts them.
#[test]
fn the_hash_is_that_of_go() {
    assert_eq!(of_all(&BTreeMap::new()), 86_995_377);
    let odd = "x<y>&\u{2028}\"\n\u{1}é";
    assert_eq!(of_all(&[("B", odd), ("A", "")].into()), 1_638_876_649);
    assert_ne!(of_all(&[("A", "1")].into()), of_all(&[("A", "2")].into()));
}
