use super::*;
use crate::secret_path::handler_path;

#[test]
fn gate_rule_skips_protected_pods_and_fails_open() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    assert_eq!(
        ReadinessGate::default().webhook(&service, ("PEM", "s")),
        None
    );
    let gate = ReadinessGate::of_all_but(["kube-system".to_owned()].into());
    let webhook = gate.webhook(&service, ("PEM", "s")).unwrap();
    assert_eq!(webhook["failurePolicy"], "Ignore");
    let expressions = webhook["namespaceSelector"]["matchExpressions"]
        .as_array()
        .unwrap();
    assert_eq!(
        (&expressions[0]["values"], &expressions[1]["values"]),
        (&json!(["kube-system"]), &json!(["openkruise"]))
    );
    assert_eq!(
        webhook["clientConfig"]["service"]["path"],
        handler_path(GATE_PATH, "s")
    );
    assert_eq!(
        gate.clone().within(&ReadinessGate::default()),
        ReadinessGate::default()
    );
    assert_eq!(gate.clone().within(&gate), gate);
}
