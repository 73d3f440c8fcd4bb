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
fn last_words_of_a_test_omit_its_logs() {
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
