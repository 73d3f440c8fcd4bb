use super::*;
use crate::secret_path::handler_path;

#[test]
fn rules_cover_budget_namespaces_and_holdable_pods() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    assert!(
        Disruptions::default()
            .webhooks(&service, ("PEM", "s"))
            .is_empty()
    );
    let one = Disruptions {
        namespaces: ["a".to_owned()].into(),
        deletions: true,
        ..Disruptions::default()
    };
    let entries = one.webhooks(&service, ("PEM", "s"));
    let asked = |entry: &Value| {
        (
            entry["rules"][0]["operations"].clone(),
            entry["rules"][0]["resources"].clone(),
        )
    };
    assert_eq!(asked(&entries[0]), (json!(["DELETE"]), json!(["pods"])));
    assert_eq!(asked(&entries[1]), (json!(["DELETE"]), json!(["pods"])));
    assert_eq!(
        asked(&entries[2]),
        (json!(["CREATE"]), json!(["pods/eviction"]))
    );
    for (entry, policy) in entries.iter().zip(["Fail", "Ignore", "Fail"]) {
        assert_eq!(
            entry["namespaceSelector"]["matchExpressions"][0]["values"],
            json!(["a"])
        );
        assert_eq!(
            (&entry["failurePolicy"], &entry["sideEffects"]),
            (&json!(policy), &json!("NoneOnDryRun"))
        );
    }
    let is_free = json!(format!(
        "request.userInfo.username != '{NAMESPACE_CONTROLLER}'"
    ));
    let conditions = entries[0]["matchConditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["expression"] == is_free),
        "its status would tell the path"
    );
    let size = |disruptions: &Disruptions| {
        disruptions.webhooks(&service, ("PEM", "s"))[0]["matchConditions"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        size(&Disruptions {
            unready: one.namespaces.clone(),
            ..one.clone()
        }),
        size(&one) - 1
    );
    let open = Disruptions {
        fails_open: true,
        ..one.clone()
    };
    assert_eq!(
        open.webhooks(&service, ("PEM", "s"))[0]["failurePolicy"],
        "Ignore"
    );
    let binding = one.binding(&service, ("PEM", "s")).unwrap();
    assert_eq!(
        asked(&binding),
        (json!(["CREATE"]), json!(["pods/eviction"]))
    );
    let path = |entry: &Value| entry["clientConfig"]["service"]["path"].clone();
    assert_eq!(
        (path(&binding), path(&entries[0])),
        (
            json!(handler_path(EVICT_PATH, "s")),
            json!(handler_path(DISRUPT_PATH, "s"))
        )
    );
    assert_eq!(
        (&binding["failurePolicy"], &binding["namespaceSelector"]),
        (&json!("Ignore"), &entries[0]["namespaceSelector"])
    );
    assert_eq!(Disruptions::default().binding(&service, ("PEM", "s")), None);
    let changes = Disruptions {
        changes_but_by: Some("me".to_owned()),
        ..one.clone()
    };
    let entries = changes.webhooks(&service, ("PEM", "s"));
    assert_eq!(asked(&entries[2]), (json!(["UPDATE"]), json!(["pods"])));
    assert_eq!(
        asked(&entries[3]),
        (json!(["UPDATE"]), json!(["pods/resize"]))
    );
    assert!(
        entries[3]["matchConditions"]
            .to_string()
            .contains("request.userInfo.username != 'me'")
    );
    assert_eq!(
        one.clone().within(&Disruptions::default()).namespaces,
        BTreeSet::new()
    );
}

#[test]
fn rules_cover_deletions_and_changes_separately() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    for (deletions, changes, expected) in [
        (false, false, vec![]),
        (
            true,
            false,
            vec!["DELETE pods", "DELETE pods", "CREATE pods/eviction"],
        ),
        (false, true, vec!["UPDATE pods", "UPDATE pods/resize"]),
        (
            true,
            true,
            vec![
                "DELETE pods",
                "DELETE pods",
                "UPDATE pods",
                "UPDATE pods/resize",
                "CREATE pods/eviction",
            ],
        ),
    ] {
        let asked = Disruptions {
            namespaces: ["a".to_owned()].into(),
            deletions,
            changes_but_by: changes.then(|| "me".to_owned()),
            ..Disruptions::default()
        };
        let entries = asked.webhooks(&service, ("PEM", "s"));
        let what = |entry: &Value| {
            let word = |path: &str| {
                entry
                    .pointer(path)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            format!(
                "{} {}",
                word("/rules/0/operations/0"),
                word("/rules/0/resources/0")
            )
        };
        assert_eq!(
            entries.iter().map(what).collect::<Vec<_>>(),
            expected,
            "{deletions} {changes}"
        );
        // Pods that the webhook is never called for are excluded in all of them, except in those
        // for evictions, which do not show the pod.
        let of_pods = entries
            .iter()
            .filter(|entry| !what(entry).ends_with("eviction"));
        for entry in of_pods {
            assert_eq!(
                entry["matchConditions"][0]["name"], "is-there",
                "{deletions} {changes}"
            );
        }
        let binds = asked.binding(&service, ("PEM", "s")).is_some();
        assert_eq!(
            binds, deletions,
            "who evicts none need not name its uid: {deletions} {changes}"
        );
    }
}

#[test]
fn passing_requests_have_entries_that_fail_open() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    for (exempt, expected) in [
        (vec![], vec!["passing-delete"]),
        (
            vec!["on\"call"],
            vec![
                "passing-delete",
                "passing-update",
                "passing-resize",
                "passing-evict",
            ],
        ),
    ] {
        let asked = Disruptions {
            namespaces: ["a".to_owned()].into(),
            deletions: true,
            changes_but_by: Some("me".to_owned()),
            exempt: exempt.iter().map(|group| (*group).to_owned()).collect(),
            ..Disruptions::default()
        };
        let entries = asked.webhooks(&service, ("PEM", "s"));
        let name = |entry: &Value| {
            entry["name"]
                .as_str()
                .unwrap()
                .trim_end_matches(".pods.kruise.io")
                .to_owned()
        };
        let expression = |entry: &Value| {
            entry["matchConditions"].as_array().unwrap().last().unwrap()["expression"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let passing: Vec<_> = entries
            .iter()
            .filter(|entry| entry["failurePolicy"] == "Ignore")
            .collect();
        assert_eq!(
            passing.iter().map(|entry| name(entry)).collect::<Vec<_>>(),
            expected
        );
        for entry in passing {
            let other = name(entry).replace("passing-", "");
            let other = entries.iter().find(|entry| name(entry) == other).unwrap();
            assert_eq!(
                format!("!({})", expression(entry)),
                expression(other),
                "each request has one entry"
            );
            assert_eq!(entry["timeoutSeconds"], TIMEOUT);
            let names_group = expression(entry).contains(r#"exists(group, group in ["on\"call"])"#);
            assert_eq!(names_group, !exempt.is_empty(), "{}", expression(entry));
        }
    }
}

#[test]
fn budget_of_unready_pods_changes_no_other_namespace() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    let asked = Disruptions {
        deletions: true,
        changes_but_by: Some("me".to_owned()),
        ..Disruptions::default()
    };
    let asked =
        asked.of([("a", false), ("t1", true)].map(|(name, unready)| (name.to_owned(), unready)));
    let entries = asked.webhooks(&service, ("PEM", "s"));
    let said = entries.iter().map(|entry| {
        let is_ready = entry["matchConditions"]
            .to_string()
            .contains("\"is-ready\"");
        let values = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
        (
            entry["name"]
                .as_str()
                .unwrap()
                .trim_end_matches(".pods.kruise.io"),
            is_ready,
            values.to_string(),
        )
    });
    let (a, t1, both) = (r#"["a"]"#, r#"["t1"]"#, r#"["a","t1"]"#);
    let expected = [
        ("delete", true, a),
        ("passing-delete", true, a),
        ("update", true, a),
        ("resize", true, a),
        ("delete-unready", false, t1),
        ("passing-delete-unready", false, t1),
        ("update-unready", false, t1),
        ("resize-unready", false, t1),
        ("evict", false, both),
    ];
    let expected = expected.map(|(name, is_ready, values)| (name, is_ready, values.to_owned()));
    assert_eq!(said.collect::<Vec<_>>(), expected);
}

#[test]
fn entries_of_many_namespaces_stay_below_a_megabyte() {
    let service = Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    let name = |number: usize| format!("{number}-{}", "x".repeat(56));
    let (changes_but_by, exempt) = (Some("me".to_owned()), ["oncall".to_owned()].into());
    let asked = Disruptions {
        deletions: true,
        changes_but_by,
        exempt,
        ..Disruptions::default()
    };
    let asked = asked.of((0..5_000).map(|number| (name(number), number % 2 == 0)));
    assert!(
        asked.is_full
            && asked.namespaces.contains(&name(1_000))
            && !asked.namespaces.contains(&name(4_999))
    );
    assert!(
        json!(asked.webhooks(&service, ("PEM", "s")))
            .to_string()
            .len()
            < 1_000_000
    );
    assert!(
        json!(asked.binding(&service, ("PEM", "s")))
            .to_string()
            .len()
            < 150_000
    );
}
