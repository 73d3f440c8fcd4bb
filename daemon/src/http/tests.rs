use super::*;

#[test]
fn ready_means_that_the_node_image_is_watched() {
    let metrics = Metrics::default();
    assert_eq!(respond("/healthz", &metrics).status(), StatusCode::OK);
    assert_eq!(
        respond("/readyz", &metrics).status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    metrics.watching.store(true, Ordering::Relaxed);
    assert_eq!(respond("/readyz", &metrics).status(), StatusCode::OK);
    assert_eq!(respond("/", &metrics).status(), StatusCode::NOT_FOUND);
}

#[test]
fn metrics_are_named() {
    let metrics = Metrics::default();
    metrics.pulled("failed");
    metrics.runtime_ready.set(1);
    let text = metrics.text();
    assert!(
        text.contains(r#"berth_daemon_image_pulls_total{result="failed"} 1"#),
        "{text}"
    );
    assert!(text.contains("berth_daemon_runtime_ready 1"), "{text}");
}
