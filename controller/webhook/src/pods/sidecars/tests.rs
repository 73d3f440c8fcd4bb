use super::*;
use crate::secret_path::handler_path;

fn ask(name: &str, app: &str, fails_closed: bool) -> SidecarRequest {
    let selector = serde_json::from_value(json!({"matchLabels": {"app": app}})).unwrap();
    SidecarRequest {
        name: name.to_owned(),
        selector,
        namespaces: None,
        fails_closed,
    }
}

fn service() -> Endpoint {
    Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    }
}

fn protected() -> [String; 1] {
    ["kube-system".to_owned()]
}

#[test]
fn sets_with_equal_namespaces_and_policy_share_entry() {
    let elsewhere = SidecarRequest {
        namespaces: serde_json::from_value(json!({"matchLabels": {"team": "a"}})).unwrap(),
        ..ask("d", "x", false)
    };
    let asks = [
        ask("a", "x", false),
        ask("b", "y", false),
        ask("c", "x", true),
        elsewhere,
    ];
    let sidecars = Sidecars::new(asks.clone(), protected());
    let webhooks = sidecars.webhooks(&service(), ("PEM", "s"));
    let policies: Vec<_> = webhooks
        .iter()
        .map(|webhook| webhook["failurePolicy"].as_str().unwrap())
        .collect();
    assert_eq!(policies, ["Ignore", "Ignore", "Fail"], "{webhooks:#?}");
    let selected = |webhook: &Value| {
        webhook["matchConditions"][1]["expression"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        webhooks
            .iter()
            .any(|w| selected(w).ends_with(" in ['x', 'y']))"))
    );
    for webhook in &webhooks {
        assert_eq!(
            webhook["clientConfig"]["service"]["path"],
            handler_path(INJECT_PATH, "s")
        );
        let expressions = webhook["namespaceSelector"]["matchExpressions"]
            .as_array()
            .unwrap();
        assert_eq!(expressions[0]["values"], json!(["kube-system"]));
        assert_eq!(expressions[1]["values"], json!(["openkruise"]));
    }
    assert!(asks.iter().all(|ask| sidecars.has(ask)) && !sidecars.has(&ask("e", "x", false)));
}

#[test]
fn entry_with_old_selectors_does_not_serve_the_set() {
    let (before, of_b) = (ask("a", "x", false), ask("b", "x", false));
    let namespaces =
        |team: &str| serde_json::from_value(json!({"matchLabels": {"team": team}})).unwrap();
    let elsewhere = |team: &str| SidecarRequest {
        namespaces: Some(namespaces(team)),
        ..before.clone()
    };
    for (what, before, now) in [
        ("another selector", &before, ask("a", "y", false)),
        ("a namespaceSelector", &before, elsewhere("a")),
        ("another namespaceSelector", &elsewhere("a"), elsewhere("b")),
        ("another failure policy", &before, ask("a", "x", true)),
    ] {
        let written = Sidecars::new([before.clone(), of_b.clone()], protected());
        let wanted = Sidecars::new([now.clone(), of_b.clone()], protected());
        assert!(
            written.has(before) && !written.has(&now) && wanted.has(&now),
            "{what}"
        );
        // A new rule is not in force before it is written, and a rule that is about to be removed
        // no longer counts.
        let left = written.clone().within(&wanted);
        assert!(
            !left.has(before) && !left.has(&now) && left.has(&of_b),
            "{what}"
        );
        assert!(written.clone().within(&written).has(before), "{what}");
    }
}

#[test]
fn selector_additions_of_users_stay() {
    let sidecars = Sidecars::new([ask("a", "x", false)], protected());
    let mut wanted = sidecars.webhooks(&service(), ("PEM", "s")).remove(0);
    let mut found = wanted.clone();
    let added = json!({"key": "chaos", "operator": "DoesNotExist"});
    found["namespaceSelector"]["matchExpressions"]
        .as_array_mut()
        .unwrap()
        .push(added.clone());
    found["namespaceSelector"]["matchLabels"] = json!({"tier": "a"});
    found["objectSelector"] = json!({"matchLabels": {"inject": "yes"}});
    keep_added(&found, &mut wanted);
    assert_eq!(wanted, found);
    keep_added(&found, &mut wanted);
    assert_eq!(wanted, found, "once is enough");
}

#[test]
fn no_expression_is_too_long() {
    let of = |n: usize| ask(&format!("s{n}"), &format!("{n}-{}", "x".repeat(50)), false);
    let by_two = |n: usize| {
        let selector =
            json!({"matchLabels": {"app": format!("{n}-{}", "x".repeat(50)), "tier": "web"}});
        SidecarRequest {
            selector: serde_json::from_value(selector).unwrap(),
            ..of(n)
        }
    };
    let (by_label, by_two): (Vec<_>, Vec<_>) =
        ((0..MOST).map(of).collect(), (0..MOST).map(by_two).collect());
    for asks in [by_label, by_two] {
        let webhooks = Sidecars::new(asks, protected()).webhooks(&service(), ("PEM", "s"));
        assert!(
            webhooks.len() > 1 && webhooks.len() < 16,
            "{}",
            webhooks.len()
        );
        for webhook in &webhooks {
            assert!(
                webhook["matchConditions"][1]["expression"]
                    .as_str()
                    .unwrap()
                    .len()
                    < 100_000
            );
        }
    }
}

#[test]
fn selectors_of_one_label_are_one_term() {
    let asks = [
        ask("a", "web", false),
        ask("b", "db", false),
        ask("c", "web", false),
    ];
    let webhooks = Sidecars::new(asks, protected()).webhooks(&service(), ("PEM", "s"));
    let expression = webhooks[0]["matchConditions"][1]["expression"]
        .as_str()
        .unwrap();
    assert!(
        webhooks.len() == 1 && expression.ends_with(" in ['db', 'web']))"),
        "{expression}"
    );
}
