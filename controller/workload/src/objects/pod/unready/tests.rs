use serde_json::{Value, json};

use super::*;

fn pod(condition: Value) -> Pod {
    let conditions = if condition.is_null() {
        json!([])
    } else {
        json!([condition])
    };
    serde_json::from_value(json!({
        "metadata": {}, "status": {"conditions": conditions},
        "spec": {"readinessGates": [{"conditionType": KRUISE_POD_READY}]},
    }))
    .unwrap()
}

fn of(status: &str, message: &str) -> Pod {
    pod(json!({"type": KRUISE_POD_READY, "status": status, "message": message}))
}

fn told(condition: Option<Condition>) -> Option<(String, String)> {
    condition.map(|c| (c.status.to_string(), c.message.into()))
}

#[test]
fn unready_reasons_are_added_and_removed_singly() {
    let now = Timestamp::UNIX_EPOCH;
    let update = r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;
    let both =
        r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"},{"userAgent":"Other","key":"b"}]"#;
    let other = r#"[{"userAgent":"Other","key":"b"}]"#;
    // the condition => with the reason of an update, without those of hooks
    let table = [
        (pod(Value::Null), Some(("False", update)), None),
        (of("True", ""), Some(("False", update)), None),
        (of("True", "[]"), Some(("False", update)), None),
        (
            of("False", "somebody's words"),
            Some(("False", update)),
            None,
        ),
        (of("False", update), None, Some(("True", "[]"))),
        (
            of("True", update),
            Some(("False", update)),
            Some(("True", "[]")),
        ),
        (of("False", other), Some(("False", both)), None),
        (of("False", both), None, Some(("False", other))),
    ];
    let owned = |told: Option<(&str, &str)>| told.map(|(a, b)| (a.to_owned(), b.to_owned()));
    for (pod, added, removed) in table {
        let condition = &pod.status.conditions;
        assert_eq!(
            told(with(&pod, &BEFORE_UPDATE, now)),
            owned(added),
            "{condition:?}"
        );
        assert_eq!(
            told(without_hooks(&pod, now)),
            owned(removed),
            "{condition:?}"
        );
    }
    let mut ungated = of("False", update);
    ungated.spec.readiness_gates = [].into();
    assert_eq!(
        (
            with(&ungated, &BEFORE_DELETE, now),
            without_hooks(&ungated, now)
        ),
        (None, None)
    );
}
