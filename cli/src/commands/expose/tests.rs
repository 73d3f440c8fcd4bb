use clap::Parser;

use super::*;

#[derive(Parser)]
enum Line {
    Expose(Expose),
    Autoscale(Autoscale),
}

fn expose(flags: &str) -> Expose {
    let words = format!("x expose cloneset/web {flags}");
    match Line::try_parse_from(words.split_whitespace()).unwrap() {
        Line::Expose(expose) => expose,
        Line::Autoscale(_) => unreachable!(),
    }
}

fn autoscale(flags: &str) -> Autoscale {
    let words = format!("x autoscale cloneset/web {flags}");
    match Line::try_parse_from(words.split_whitespace()).unwrap() {
        Line::Autoscale(autoscale) => autoscale,
        Line::Expose(_) => unreachable!(),
    }
}

fn web(ports: Value) -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "app", "ports": ports}]}},
        },
    })
}

#[test]
fn service_has_selector_labels_and_port() {
    let flags = "--port 80 --target-port http --type nodeport --name front";
    let service = expose(flags).service(CLONE_SETS, &web(json!([]))).unwrap();
    assert_eq!(
        service,
        json!({
            "metadata": {"name": "front", "labels": {"team": "a"}},
            "spec": {
                "selector": {"app": "web"},
                "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
                "type": "NodePort",
            },
        })
    );
}

#[test]
fn ports_come_from_containers_without_the_flag() {
    let two = json!([{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]);
    let service = expose("").service(CLONE_SETS, &web(two)).unwrap();
    assert_eq!(
        service["spec"]["ports"],
        json!([
            {"port": 80, "targetPort": 80, "protocol": "TCP", "name": "port-1"},
            {"port": 53, "targetPort": 53, "protocol": "UDP", "name": "port-2"},
        ])
    );
    assert!(expose("").service(CLONE_SETS, &web(json!([]))).is_err());
}

#[test]
fn selector_with_expressions_is_refused() {
    let mut web = web(json!([]));
    web["spec"]["selector"]["matchExpressions"] = json!([{"key": "a", "operator": "Exists"}]);
    assert!(expose("--port 80").service(CLONE_SETS, &web).is_err());
}

#[test]
fn autoscaler_targets_percentages_and_amounts() {
    for (flags, expected) in [
        (
            "--max 5 --cpu 80%",
            Some(json!([["cpu", {"type": "Utilization", "averageUtilization": 80}]])),
        ),
        (
            "--max 5 --cpu 500",
            Some(json!([["cpu", {"type": "AverageValue", "averageValue": "500m"}]])),
        ),
        (
            "--max 5 --memory 1Gi",
            Some(json!([["memory", {"type": "AverageValue", "averageValue": "1Gi"}]])),
        ),
        ("--max 5", None),
        ("--max 5 --min 6 --cpu 80%", None),
        ("--max 5 --min 0 --cpu 80%", None),
        ("--max 5 --cpu 0%", None),
        ("--max 5 --cpu x", None),
    ] {
        let made = autoscale(flags).autoscaler(CLONE_SETS, "web").ok();
        let metrics = made.map(|made| {
            assert_eq!(
                made["spec"]["scaleTargetRef"],
                json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"})
            );
            let all = objects::items(&made, "/spec/metrics");
            json!(
                all.map(|one| json!([one["resource"]["name"], one["resource"]["target"]]))
                    .collect::<Vec<_>>()
            )
        });
        assert_eq!(metrics, expected, "{flags}");
    }
}

#[test]
fn missing_request_of_a_percentage_is_noted() {
    let notes = |flags: &str| {
        autoscale(flags)
            .lacking(CLONE_SETS, &web(json!([])))
            .unwrap()
    };
    assert_eq!(notes("--max 2 --cpu 80%").len(), 1);
    assert_eq!(notes("--max 2 --cpu 100m").len(), 0);
}
