use k8s_openapi::ByteString;

use super::*;

const BUNDLE: &str = "authorities";

fn service() -> Endpoint {
    Endpoint::Service {
        namespace: "ns".to_owned(),
        name: "hook".to_owned(),
    }
}

fn host(host: &str) -> Endpoint {
    Endpoint::Host {
        host: host.to_owned(),
        port: 9876,
    }
}

/// A CRD's spec whose conversion is this, with the patch merged into it as the apiserver would.
fn merged(mut spec: Value, patch: &Value) -> Value {
    fn merge(target: &mut Value, patch: &Value) {
        let Some(entries) = patch.as_object() else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in entries {
            match target.as_object_mut() {
                Some(target) if value.is_null() => drop(target.remove(key)),
                _ => merge(&mut target[key], value),
            }
        }
    }
    merge(&mut spec, &patch["spec"]);
    spec
}

#[test]
fn wrong_conversion_is_repaired_by_one_patch() {
    let with = |client_config: Value| json!({"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client_config}}});
    let good = json!({"namespace": "ns", "name": "hook", "path": "/convert"});
    let bundle = serde_json::to_value(ByteString(BUNDLE.as_bytes().to_vec())).unwrap();
    let wrong = [
        json!({}),
        json!({"conversion": {"strategy": "None"}}),
        with(json!({"service": good})),
        with(json!({"service": good, "caBundle": "b3RoZXI="})),
        with(
            json!({"service": {"namespace": "ns", "name": "other", "path": "/convert"}, "caBundle": bundle}),
        ),
        with(
            json!({"service": {"namespace": "ns", "name": "hook", "path": "/", "port": 443}, "caBundle": bundle}),
        ),
        with(
            json!({"service": {"namespace": "ns", "name": "hook", "path": "/convert", "port": 8443}, "caBundle": bundle}),
        ),
        with(json!({"url": "https://10.0.0.9:9876/convert", "caBundle": bundle})),
    ];
    for endpoint in [service(), host("10.0.0.7"), host("::1")] {
        for spec in &wrong {
            let found: CrdSpec = serde_json::from_value(spec.clone()).unwrap();
            let patch = crd_patch(&found, &endpoint, BUNDLE);
            let repaired = merged(
                spec.clone(),
                &patch.unwrap_or_else(|| panic!("{spec} was left as it is")),
            );
            let repaired: CrdSpec = serde_json::from_value(repaired).unwrap();
            assert_eq!(
                crd_patch(&repaired, &endpoint, BUNDLE),
                None,
                "{spec} is not repaired by one patch"
            );
        }
    }
    let found: CrdSpec =
        serde_json::from_value(with(json!({"service": good, "caBundle": bundle}))).unwrap();
    assert_eq!(
        crd_patch(&found, &service(), BUNDLE),
        None,
        "port 443 is what no port means"
    );
}

#[test]
fn only_wrong_webhook_entries_are_patched() {
    let good = json!({"namespace": "ns", "name": "hook", "path": handler_path(VALIDATE_PATH, "s")});
    let webhook = |name: &str, client_config: Value| -> ValidatingWebhook {
        serde_json::from_value(json!({
                "name": name, "clientConfig": client_config, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Ignore", "rules": own_kinds(),
            }))
            .unwrap()
    };
    let bundle = serde_json::to_value(ByteString(BUNDLE.as_bytes().to_vec())).unwrap();
    let right = webhook("right", json!({"service": good, "caBundle": bundle}));
    let wiped = webhook("wiped", json!({"service": good}));
    let of_chart = webhook(
        "of-chart",
        json!({"service": {"namespace": "ns", "name": "hook"}, "caBundle": bundle}),
    );
    let anybody = json!({"namespace": "ns", "name": "hook", "path": "/validate"});
    let anybody = webhook("anybody", json!({"service": anybody, "caBundle": bundle}));
    let found = [right.clone(), wiped, of_chart, anybody];
    let patch = validating_patch(&found, &service(), (BUNDLE, "s")).unwrap();
    let names: Vec<_> = patch["webhooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|webhook| &webhook["name"])
        .collect();
    assert_eq!(names, ["wiped", "of-chart", "anybody"]);
    assert_eq!(
        validating_patch(std::slice::from_ref(&right), &service(), (BUNDLE, "s")),
        None
    );
    assert!(
        validating_patch(&[right], &service(), (BUNDLE, "t")).is_some(),
        "another authority, another path"
    );
    assert_eq!(validating_patch(&[], &service(), (BUNDLE, "s")), None);
    // A replica of another build has another seed and no other difference.
    for (found, is_seed_alone) in [
        (&found[..1], true),
        (&found[1..2], false),
        (&found[2..3], false),
        (&found[..], false),
    ] {
        assert_eq!(
            differ_by_seed_alone(found, &service(), (BUNDLE, "t")),
            is_seed_alone,
            "{found:?}"
        );
    }
    assert!(
        !differ_by_seed_alone(&found[..1], &service(), ("others", "t")),
        "another authority"
    );
}

#[test]
fn changed_webhook_rules_and_policy_are_restored() {
    let bundle = serde_json::to_value(ByteString(BUNDLE.as_bytes().to_vec())).unwrap();
    let client_config = json!({"service": {"namespace": "ns", "name": "hook", "path": handler_path(VALIDATE_PATH, "s")}, "caBundle": bundle});
    let webhook = |failure_policy: Value, groups: Value| -> ValidatingWebhook {
        let mut rules = own_kinds();
        rules[0]["apiGroups"] = groups;
        serde_json::from_value(json!({
                "name": "w", "clientConfig": client_config, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": failure_policy, "rules": rules,
            }))
            .unwrap()
    };
    let ours = json!(["apps.kruise.io"]);
    assert_eq!(
        validating_patch(
            &[webhook(json!("Ignore"), ours.clone())],
            &service(),
            (BUNDLE, "s")
        ),
        None
    );
    for wrong in [
        webhook(json!("Fail"), ours.clone()),
        webhook(Value::Null, ours),
        webhook(json!("Ignore"), json!(["*"])),
        webhook(json!("Ignore"), json!([])),
        webhook(json!("Ignore"), json!(["apps.kruise.io", ""])),
    ] {
        let patch = validating_patch(std::slice::from_ref(&wrong), &service(), (BUNDLE, "s"));
        let patch = patch.unwrap_or_else(|| panic!("{wrong:?} was left as it is"));
        assert_eq!(patch["webhooks"][0]["failurePolicy"], "Ignore", "{patch}");
        assert_eq!(patch["webhooks"][0]["rules"], own_kinds(), "{patch}");
    }
}

#[test]
fn an_address_of_version_6_is_bracketed() {
    assert_eq!(
        host("::1").url("/convert").as_deref(),
        Some("https://[::1]:9876/convert")
    );
    assert_eq!(
        host("box.test").url("/convert").as_deref(),
        Some("https://box.test:9876/convert")
    );
}
