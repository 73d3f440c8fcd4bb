use super::*;
use crate::secret_path::handler_path;

fn workload(namespace: &str, name: &str) -> PinnedWorkload {
    let text = str::to_owned;
    PinnedWorkload {
        namespace: text(namespace),
        group: text("apps"),
        kind: text("StatefulSet"),
        name: text(name),
    }
}

fn service() -> Endpoint {
    Endpoint::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    }
}

#[test]
fn required_pins_fail_closed_and_preferred_fail_open() {
    let scope = Scope::new([(workload("a", "db"), true), (workload("b", "web"), false)]);
    let webhooks = scope.webhooks(&service(), ("PEM", "s"));
    let of = |webhook: &Value| {
        let names = webhook["namespaceSelector"]["matchExpressions"][0]["values"].clone();
        (
            webhook["name"].clone(),
            webhook["failurePolicy"].clone(),
            names,
        )
    };
    assert_eq!(
        webhooks.iter().map(of).collect::<Vec<_>>(),
        [
            (
                json!("pin-required-0.pods.kruise.io"),
                json!("Fail"),
                json!(["a"])
            ),
            (
                json!("pin-preferred-0.pods.kruise.io"),
                json!("Ignore"),
                json!(["b"])
            ),
        ]
    );
    let condition = webhooks[0]["matchConditions"][0]["expression"]
        .as_str()
        .unwrap();
    assert!(
        condition.ends_with("in ['a/apps/StatefulSet/db'])"),
        "{condition}"
    );
    assert_eq!(webhooks[0]["timeoutSeconds"], 2);
    assert_eq!(
        webhooks[0]["clientConfig"]["service"]["path"],
        handler_path(PIN_PATH, "s")
    );
    assert!(
        Scope::default()
            .webhooks(&service(), ("PEM", "s"))
            .is_empty()
    );
}

#[test]
fn large_namespaces_leave_space_for_small_ones() {
    let many = |namespace: &'static str| {
        (0..999).map(move |n| {
            (
                workload(namespace, &format!("{n}-{}", "x".repeat(240))),
                true,
            )
        })
    };
    let scope = Scope::new(
        many("greedy")
            .chain(many("another"))
            .chain([(workload("modest", "db"), true)]),
    );
    assert!(scope.has(&workload("modest", "db")));
    let of = |namespace: &str| {
        scope
            .required
            .iter()
            .filter(|workload| workload.namespace == namespace)
            .count()
    };
    assert!(
        of("greedy") > 500 && of("greedy").abs_diff(of("another")) <= 1,
        "{} {}",
        of("greedy"),
        of("another")
    );
    assert!(
        scope.has(&workload("greedy", &format!("0-{}", "x".repeat(240)))),
        "the first ones"
    );
    let webhooks = scope.webhooks(&service(), ("PEM", "s"));
    assert!(webhooks.len() > 1 && json!(webhooks).to_string().len() < 400_000);
    for webhook in &webhooks {
        assert!(
            webhook["matchConditions"][0]["expression"]
                .as_str()
                .unwrap()
                .len()
                < 100_000
        );
    }
}

#[test]
fn a_name_that_would_end_the_expression_is_in_none() {
    let scope = Scope::new([(
        PinnedWorkload {
            kind: "X'] || true || ['".to_owned(),
            ..workload("a", "db")
        },
        true,
    )]);
    assert!(scope.webhooks(&service(), ("PEM", "s")).is_empty());
}
