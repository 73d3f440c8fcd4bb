use super::*;

#[test]
fn names_are_those_that_dashboards_know() {
    let metrics =
        Metrics::new(|registry| registry.register("berth_test", "A test", Gauge::<i64>::default()));
    let _ = (
        metrics.driver("cloneset", 4),
        metrics.queue("cloneset"),
        metrics.feed("Pod"),
    );
    metrics.leader("kruise-manager").set(1);
    metrics.request("200", "GET", "pods");
    let text = metrics.encode();
    for line in [
        "controller_runtime_reconcile_total{controller=\"cloneset\",result=\"success\"} 0",
        "controller_runtime_reconcile_errors_total{controller=\"cloneset\"} 0",
        "controller_runtime_reconcile_time_seconds_count{controller=\"cloneset\"} 0",
        "controller_runtime_active_workers{controller=\"cloneset\"} 0",
        "controller_runtime_max_concurrent_reconciles{controller=\"cloneset\"} 4",
        "workqueue_depth{name=\"cloneset\"} 0",
        "workqueue_adds_total{name=\"cloneset\"} 0",
        "workqueue_retries_total{name=\"cloneset\"} 0",
        "workqueue_queue_duration_seconds_count{name=\"cloneset\"} 0",
        "workqueue_work_duration_seconds_count{name=\"cloneset\"} 0",
        "rest_client_requests_total{code=\"200\",method=\"GET\",resource=\"pods\"} 1",
        "leader_election_master_status{name=\"kruise-manager\"} 1",
        "berth_test 0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in\n{text}"
        );
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_process_measures_itself() {
    let text = Metrics::new(|_| {}).encode();
    let value = |name: &str| -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.trim().parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes ") > 500_000.0);
    assert!(value("process_virtual_memory_bytes ") > value("process_resident_memory_bytes "));
    assert!(value("process_cpu_seconds_total ") >= 0.0);
    // Standard input, output and error at least.
    assert!((3.0..=value("process_max_fds ")).contains(&value("process_open_fds ")));
    // After 2020: a time of day, and none since boot.
    assert!(value("process_start_time_seconds ") > 1_577_836_800.0);
}
