use serde_json::json;

use super::*;

#[test]
fn pattern_matches_any_characters_for_a_star() {
    for (pattern, name, expected) in [
        ("app", "app", true),
        ("app", "apps", false),
        ("*", "app", true),
        ("a*", "app", true),
        ("*p", "app", true),
        ("a*x*", "app", false),
        ("ap*", "ax", false),
        ("*ä*", "bäc", true),
    ] {
        assert_eq!(is_match(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn unknown_container_error_names_the_others() {
    let mut spec = json!({"containers": [{"name": "app"}], "initContainers": [{"name": "init"}]});
    assert_eq!(containers(&mut spec, &["*"]).unwrap().len(), 2);
    let error = containers(&mut spec, &["ap"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no container \"ap\"; the containers are app, init"
    );
}

#[test]
fn pointer_of_a_kind_leads_to_its_containers() {
    let ud = json!({"spec": {"template": {"cloneSetTemplate": {"spec": {}}}}});
    let table = [
        (CLONE_SETS, json!({}), Some("/spec/template/spec")),
        (SIDECAR_SETS, json!({}), Some("/spec")),
        (
            UNITED_DEPLOYMENTS,
            ud,
            Some("/spec/template/cloneSetTemplate/spec/template/spec"),
        ),
        (UNITED_DEPLOYMENTS, json!({}), None),
        (
            berth_workload::objects::resource::NODE_IMAGES,
            json!({}),
            None,
        ),
    ];
    for (resource, object, expected) in table {
        let pointer = pointer(resource, &object).ok();
        assert_eq!(pointer.as_deref(), expected, "{resource:?}");
    }
}
