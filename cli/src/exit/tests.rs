use anyhow::Context;

use super::*;

#[test]
fn sentence_has_no_control_characters() {
    let error = anyhow::anyhow!("pod \u{1b}[2Jweb").context("cannot read");
    assert_eq!(sentence(&error), "cannot read: pod \\u{1b}[2Jweb");
}

#[test]
fn cause_is_named_once() {
    let error: anyhow::Error = Err::<(), _>(anyhow::anyhow!("it is gone"))
        .context("web: it is gone")
        .unwrap_err();
    assert_eq!(sentence(&error), "web: it is gone");
}
