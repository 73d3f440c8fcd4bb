use super::*;

#[test]
fn a_match_is_anywhere_and_of_ascii() {
    let table = [
        (".*", "", true),
        ("app", "my-app-1", true),
        ("^app$", "my-app-1", false),
        ("^app-\\d+$", "app-12", true),
        ("^app-\\d+$", "app-١", false),
        ("(?i)^APP", "app", true),
        ("^(a|b)$", "b", true),
        ("[[:alpha:]]", "1a", true),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(
            Pattern::new(pattern).unwrap().is_in(text),
            expected,
            "{pattern} in {text}"
        );
    }
}

#[test]
fn invalid_patterns_are_refused() {
    for (text, expected) in [
        ("(", "\"(\" is no regular expression: unclosed group"),
        ("^(?!x)", "is no regular expression: look-around"),
        ("(a{1000}){1000}", "is no regular expression"),
        (
            &"a".repeat(1025),
            "it has 1025 characters, and 1024 are the most",
        ),
    ] {
        let error = Pattern::new(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
