use super::*;
use crate::pods::Asks;
use crate::secret_path::handler_path;

#[test]
fn rule_covers_both_versions_and_ignores_failures() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    let entry = webhook(&service, ("PEM", "s"));
    assert_eq!(
        (&entry["failurePolicy"], &entry["timeoutSeconds"]),
        (&json!("Ignore"), &json!(TIMEOUT))
    );
    assert_eq!(
        entry["rules"][0]["apiVersions"],
        json!(["v1alpha1", "v1beta1"])
    );
    assert_eq!(
        entry["clientConfig"]["service"]["path"],
        handler_path(RECREATE_PATH, "s")
    );
    let asks = Asks {
        requests: true,
        ..Asks::default()
    };
    assert!(asks.patch(&[], &service, ("PEM", "s")).is_some());
    let found = [serde_json::from_value(entry).unwrap()];
    assert_eq!(asks.patch(&found, &service, ("PEM", "s")), None);
    assert_eq!(asks.clone().within(&Asks::default()), Asks::default());
}
