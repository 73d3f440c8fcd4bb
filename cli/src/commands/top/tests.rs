use serde_json::{Value, json};

use super::{Order, rows};

fn pod(name: &str) -> Value {
    let requests = json!({"cpu": "100m", "memory": "64Mi"});
    json!({
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"containers": [{"name": "web", "resources": {"requests": requests}}, {"name": "log"}]},
    })
}

fn metrics(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "n"},
        "containers": [
            {"name": "web", "usage": {"cpu": cpu, "memory": memory}},
            {"name": "log", "usage": {"cpu": "1m", "memory": "1Mi"}}],
    })
}

#[test]
fn rows_sum_containers_and_pods() {
    let pods = [pod("b"), pod("a"), pod("c")];
    let metrics = [
        metrics("a", "9500000n", "32768Ki"),
        metrics("b", "199m", "63Mi"),
        metrics("x", "1", "1Gi"),
    ];
    let all = rows(&pods, &metrics, false, Order::Name);
    assert_eq!(
        all,
        [
            ["a", "11m", "11%", "33Mi", "51%"],
            ["b", "200m", "200%", "64Mi", "100%"],
            ["c", "<unknown>", "-", "<unknown>", "-"],
            ["total", "211m", "105%", "97Mi", "75%"],
        ]
    );
    let by_cpu = rows(&pods, &metrics, false, Order::Cpu);
    assert_eq!(by_cpu[0][0], "b");
    let containers = rows(&pods[..1], &metrics, true, Order::Memory);
    assert_eq!(containers[0], ["b/web", "199m", "199%", "63Mi", "98%"]);
    assert_eq!(containers[1], ["b/log", "1m", "-", "1Mi", "-"]);
}

#[test]
fn no_pods_give_no_rows() {
    assert!(rows(&[], &[metrics("a", "1", "1")], false, Order::Name).is_empty());
    assert_eq!(
        rows(&[pod("a")], &[], false, Order::Name),
        [["a", "<unknown>", "-", "<unknown>", "-"]]
    );
}
