use super::*;

#[test]
fn progress_is_counted_and_complaints_are_kept() {
    let said = "go: downloading a.b/c v1.0.0\na.b/c\na.b/c/d\n# a.b/c/d\nmain.go:1: syntax error\n";
    assert_eq!(
        show_progress(said.as_bytes(), "x"),
        "# a.b/c/d\nmain.go:1: syntax error\n"
    );
}

#[test]
fn the_executable_of_the_right_binary_is_found() {
    let messages = r#"{"reason":"compiler-artifact","target":{"name":"lib"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"pause"},"executable":"/t/pause"}
{"reason":"compiler-artifact","target":{"name":"hello"},"executable":"/t/hello"}"#;
    assert_eq!(executable(messages, "hello"), Some("/t/hello".into()));
    assert_eq!(executable(messages, "absent"), None);
}
