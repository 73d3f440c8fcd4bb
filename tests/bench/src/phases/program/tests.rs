use super::*;

#[test]
fn two_replicas_are_reached_at_one_address() {
    let ports = Ports {
        metrics: 1,
        health: 2,
        webhook: 3,
    };
    let words = ports.reached_at(berth(Path::new("berth")));
    assert!(
        words.contains(&"--webhook-host={host}:3".to_owned()),
        "{words:?}"
    );
    assert_eq!(words.len(), berth(Path::new("berth")).len());
}

#[test]
fn reconciles_of_all_controllers_are_added() {
    let text = "# HELP x\ncontroller_runtime_reconcile_total{controller=\"a\",result=\"success\"} 3\n\
                    controller_runtime_reconcile_total{controller=\"b\"} 4e+01\ncontroller_runtime_reconcile_errors_total 9\n";
    assert_eq!(sum(text, "controller_runtime_reconcile_total"), Some(43));
    assert_eq!(
        sum(text, "controller_runtime_reconcile_errors_total"),
        Some(9)
    );
    assert_eq!(sum(text, "controller_runtime_reconcile"), None);
}
