use berth_workload::objects::resource::{CLONE_SETS, PODS};
use serde_json::json;

use super::*;

#[test]
fn merge_patch_names_changed_fields_only() {
    let table = [
        (json!({"a": 1}), json!({"a": 1}), None),
        (
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
            json!({"a": 1, "b": {"c": 4, "d": 3}}),
            Some(json!({"b": {"c": 4}})),
        ),
        (
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"c": 2}}),
            Some(json!({"a": {"b": null}})),
        ),
        (
            json!({}),
            json!({"a": {"b": []}}),
            Some(json!({"a": {"b": []}})),
        ),
        // A list is replaced as a whole.
        (
            json!({"a": [1, 2]}),
            json!({"a": [1, 3]}),
            Some(json!({"a": [1, 3]})),
        ),
    ];
    for (old, new, patch) in table {
        assert_eq!(merge_patch(&old, &new), patch, "{old} {new}");
    }
}

#[test]
fn title_has_the_group_as_kubectl_prints_it() {
    assert_eq!(title(CLONE_SETS, "web"), "cloneset.apps.kruise.io/web");
    assert_eq!(title(PODS, "web-1"), "pod/web-1");
}
