use super::*;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_kinds::cloneset::CloneSetOwner;

#[test]
fn other_words_in_a_condition_are_no_news() {
    let set = |generation: i64, reason: &str, message: &str| -> CloneSet {
        serde_json::from_value(json!({
                "metadata": {"name": "web", "generation": generation},
                "spec": {"selector": {}, "template": {}},
                "status": {"conditions": [{"type": "FailedScale", "status": "True", "reason": reason, "message": message}]},
            }))
            .unwrap()
    };
    let before = set(1, "Refused", "pod a");
    for (after, triggers) in [
        (set(1, "Refused", "pod b"), false),
        (set(1, "Other", "pod a"), true),
        (set(2, "Refused", "pod a"), true),
    ] {
        assert_eq!(
            is_trigger::<CloneSetOwner>(&before, &after),
            triggers,
            "{after:?}"
        );
    }
}
