use super::*;

#[test]
fn changed_guard_entry_is_restored() {
    let endpoint = Endpoint::Service {
        namespace: "ns".to_owned(),
        name: "hook".to_owned(),
    };
    let mut right = fields();
    right["name"] = json!(GUARD);
    right["clientConfig"] = endpoint.secret_client_config(GUARD_PATH, ("PEM", "s"));
    let patched = |entry: &Value| {
        patch(
            &serde_json::from_value(entry.clone()).unwrap(),
            &endpoint,
            ("PEM", "s"),
        )
    };
    assert_eq!(patched(&right), None);
    for (field, value) in [
        ("failurePolicy", json!("Ignore")),
        ("timeoutSeconds", json!(30)),
        ("objectSelector", json!({})),
        ("namespaceSelector", json!({"matchLabels": {"a": "b"}})),
        (
            "matchConditions",
            json!([{"name": "never", "expression": "false"}]),
        ),
        ("rules", json!([])),
    ] {
        let mut wrong = right.clone();
        wrong[field] = value;
        let patch = patched(&wrong).unwrap_or_else(|| panic!("{field} was left as it is"));
        assert_eq!(patch["failurePolicy"], "Fail", "{field}");
        assert_eq!(patch["objectSelector"]["$patch"], "replace", "{field}");
        assert_eq!(
            patch["matchConditions"][0],
            json!({"$patch": "replace"}),
            "{field}"
        );
    }
    // As the chart has it: neither a bundle nor the path that only the apiserver knows.
    let mut of_chart = right.clone();
    of_chart["clientConfig"] = json!({"service": {"namespace": "ns", "name": "hook", "port": 443}});
    let patch = patched(&of_chart).unwrap();
    assert_eq!(
        patch,
        json!({"name": GUARD, "clientConfig": right["clientConfig"]})
    );
}
