use serde_json::{Value, json};

use super::*;

fn pod(labels: Value, finalizers: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"labels": labels, "finalizers": finalizers}}))
        .unwrap()
}

#[test]
fn hook_holds_by_any_part_and_is_whole_with_all() {
    let hook: LifecycleHook = serde_json::from_value(json!({
        "labelsHandler": {"a": "1", "b": "2"}, "finalizersHandler": ["x.io/f"],
    }))
    .unwrap();
    // labels, finalizers => holds, is whole
    let table = [
        (json!({}), json!([]), false, false),
        (json!({"a": "1"}), json!([]), true, false),
        (json!({"a": "other"}), json!([]), false, false),
        (json!({}), json!(["x.io/f"]), true, false),
        (json!({"a": "1", "b": "2"}), json!([]), true, false),
        (
            json!({"a": "1", "b": "2"}),
            json!(["y.io/g", "x.io/f"]),
            true,
            true,
        ),
    ];
    for (labels, finalizers, held, whole) in table {
        let pod = pod(labels.clone(), finalizers.clone());
        let got = (holds(Some(&hook), &pod), is_whole(Some(&hook), &pod));
        assert_eq!(got, (held, whole), "{labels} {finalizers}");
        assert_eq!(present(&hook, &pod).len() + missing(&hook, &pod).len(), 3);
    }
    let one = pod(json!({"a": "1"}), json!([]));
    assert_eq!(present(&hook, &one), ["label a=1"]);
    assert_eq!(missing(&hook, &one), ["label b=2", "finalizer x.io/f"]);
    for hook in [None, Some(&LifecycleHook::default())] {
        assert_eq!(
            (holds(hook, &one), is_whole(hook, &one)),
            (false, true),
            "a hook of nothing holds nothing"
        );
    }
}
