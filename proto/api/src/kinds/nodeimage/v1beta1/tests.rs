use super::*;

#[test]
fn a_sandbox_config_beyond_the_maximum_is_refused() {
    let of = |bytes: usize| {
        let labels = [("k".to_owned(), "v".repeat(bytes - 1))].into();
        SandboxConfig {
            labels: Some(labels),
            annotations: None,
        }
    };
    assert_eq!(of(MAX_SANDBOX_BYTES).check(), Ok(()));
    let why = of(MAX_SANDBOX_BYTES + 1).check().unwrap_err();
    assert!(why.contains("16385 bytes, but can have 16384"), "{why}");
}

#[test]
fn limits_out_of_bounds_become_default_or_maximum() {
    let asked = [None, Some(-5), Some(0), Some(7), Some(i32::MAX)];
    assert_eq!(asked.map(timeout_seconds), [600, 600, 600, 7, 3600]);
    assert_eq!(asked.map(backoff_limit), [3, 3, 0, 7, 100]);
}
