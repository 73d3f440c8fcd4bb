use serde_json::json;

use super::*;

#[test]
fn unreadable_budget_may_hold_selected_or_all_pods() {
    let web = json!({"matchLabels": {"app": "web"}});
    for (spec, is_unreadable, holds_web, holds_others) in [
        (
            json!({"selector": web, "maxUnavailable": 1}),
            false,
            true,
            false,
        ),
        (
            json!({"selector": web, "maxUnavailable": {}}),
            true,
            true,
            false,
        ),
        (
            json!({"selector": [], "maxUnavailable": 1}),
            true,
            true,
            true,
        ),
        (json!({"targetRef": 1}), true, true, true),
    ] {
        let object = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
        let pod = |app: &str| {
            serde_json::from_value::<Metadata>(json!({"labels": {"app": app}})).unwrap()
        };
        let held = held("podunavailablebudgets", &object.to_string()).unwrap();
        let holds = |pod: &Metadata| match &held {
            Held::By(holds) => holds.holds(pod),
            Held::Unreadable(selector) => selector
                .as_ref()
                .is_none_or(|all| all.matches(|key| pod.label(key))),
        };
        assert_eq!(
            matches!(held, Held::Unreadable(_)),
            is_unreadable,
            "{object}"
        );
        assert_eq!(
            (holds(&pod("web")), holds(&pod("other"))),
            (holds_web, holds_others),
            "{object}"
        );
    }
    let over = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"selector": web}});
    assert!(
        held("podunavailablebudgets", &over.to_string()).is_none(),
        "it is being deleted and holds no pods"
    );
}
