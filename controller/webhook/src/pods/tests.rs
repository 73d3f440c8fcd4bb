use super::*;

fn service() -> Endpoint {
    Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    }
}

fn asks() -> Asks {
    let text = str::to_owned;
    let workload = PinnedWorkload {
        namespace: text("a"),
        group: text("apps"),
        kind: text("StatefulSet"),
        name: text("db"),
    };
    Asks {
        pins: Scope::new([(workload, true)]),
        ..Asks::default()
    }
}

#[test]
fn server_defaults_need_no_patch_but_changes_do() {
    let asks = asks();
    let mut stored = asks.webhooks(&service(), ("PEM", "s")).remove(0);
    stored["objectSelector"] = json!({});
    let found =
        |stored: &Value| vec![serde_json::from_value::<MutatingWebhook>(stored.clone()).unwrap()];
    assert_eq!(asks.patch(&found(&stored), &service(), ("PEM", "s")), None);
    assert!(
        asks.patch(&found(&stored), &service(), ("NEW", "s"))
            .is_some(),
        "another authority"
    );
    assert!(
        asks.patch(&found(&stored), &service(), ("PEM", "t"))
            .is_some(),
        "another path"
    );
    assert!(asks.patch(&[], &service(), ("PEM", "s")).is_some());
    assert!(
        Asks::default()
            .patch(&found(&stored), &service(), ("PEM", "s"))
            .is_some(),
        "no kind needs the webhook"
    );
    for (path, value) in [
        ("/failurePolicy", json!("Ignore")),
        ("/rules/0/operations", json!(["*"])),
    ] {
        let mut changed = stored.clone();
        *changed.pointer_mut(path).unwrap() = value;
        assert!(
            asks.patch(&found(&changed), &service(), ("PEM", "s"))
                .is_some(),
            "{path}"
        );
    }
}
