use super::*;

/// Names that would change the request.
const INJECTIONS: [&str; 9] = [
    "victim/podtemplates#",
    "a/b",
    "a?b",
    "a#b",
    "a%2fb",
    "..",
    "",
    "a b",
    "a\r\nb",
];

#[test]
fn names_that_change_a_url_are_refused() {
    for text in INJECTIONS {
        assert!(
            Name::parse(text).is_err() && Namespace::parse(text).is_err(),
            "{text:?}"
        );
    }
}

#[test]
fn object_names_may_have_dots_and_namespaces_not() {
    assert_eq!(
        Name::parse("web-1.example").unwrap().as_str(),
        "web-1.example"
    );
    assert_eq!(
        Namespace::parse("kube-system").unwrap().as_str(),
        "kube-system"
    );
    assert!(Namespace::parse("a.b").is_err() && Name::parse("A").is_err());
    assert!(Name::parse(&"a".repeat(253)).is_ok() && Name::parse(&"a".repeat(254)).is_err());
    assert!(
        Namespace::parse(&"a".repeat(63)).is_ok() && Namespace::parse(&"a".repeat(64)).is_err()
    );
}

#[test]
fn error_of_a_long_value_is_short_and_names_form() {
    let error = Namespace::parse(&format!("a/{}", "x".repeat(1 << 20)))
        .unwrap_err()
        .to_string();
    assert!(
        error.len() < 300 && error.contains("is no namespace: use at most 63 of a-z, 0-9, -,"),
        "{error}"
    );
}
