use super::*;

#[test]
fn broken_promise_is_found_below_any_context() {
    use anyhow::Context;
    let wrapped = |error: Error| {
        Err::<(), _>(error)
            .context("first")
            .context("second")
            .unwrap_err()
    };
    assert!(
        is_broken(&broken("three pods served")) && is_broken(&wrapped(broken("three pods served")))
    );
    assert!(!is_broken(&wrapped(anyhow!("timed out"))));
}

#[test]
fn the_last_words_of_a_test_are_its_error_without_the_logs() {
    let error = "controller: a line\na::b: not this\na::b: no pod is ready:\n  two lines";
    assert_eq!(
        last_words("a::b", error),
        "a::b: no pod is ready:\n  two lines"
    );
    assert_eq!(
        last_words("a::b", "no cluster: no root"),
        "a::b: no cluster: no root"
    );
}
