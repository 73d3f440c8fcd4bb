use serde_json::{Value, json};

use super::*;

#[test]
fn env_keeps_launch_priority_and_injection_mark() {
    let barrier = |key: &str| json!({"name": CONTAINER_BARRIER, "valueFrom": {"configMapKeyRef": {"name": "a-barrier", "key": key}}});
    let mark = |value: Value| json!({"name": IS_INJECTED, "value": value});
    for (env, priority, is_injected) in [
        (Value::Null, None, false),
        (json!([]), None, false),
        (
            json!([{"name": "A", "value": "true"}, {"name": "B"}]),
            None,
            false,
        ),
        (
            json!([barrier("p_-2"), mark(json!("true"))]),
            Some(-2),
            true,
        ),
        (json!([barrier("2"), mark(json!("false"))]), None, false),
        (json!([mark(Value::Null)]), None, false),
        (
            json!([{"name": IS_INJECTED, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            None,
            false,
        ),
    ] {
        assert_eq!(read(&env).unwrap().priority(), priority, "{env}");
        assert_eq!(
            read(&env).unwrap(),
            Env::new(priority, is_injected),
            "{env}"
        );
    }
}
