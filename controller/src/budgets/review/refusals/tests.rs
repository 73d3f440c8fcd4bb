use berth_workload::objects::pod::{Metadata, Owner};
use serde_json::json;

use super::*;

#[test]
fn refusal_series_beyond_the_limit_are_merged() {
    let refusals = Refusals::default();
    let mut registry = Registry::default();
    refusals.register(&mut registry);
    let owner = json!([{"kind": "CloneSet", "name": "web", "uid": "w", "controller": true}]);
    let pod = |owners: serde_json::Value| -> Pod {
        serde_json::from_value(
            json!({"metadata": {"namespace": "a", "name": "web-1", "ownerReferences": owners}}),
        )
        .unwrap()
    };
    refusals.count(&pod(owner), "admin");
    for user in 0..MOST_SERIES + 5 {
        refusals.count(&pod(json!([])), &user.to_string());
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = r#"pod_unavailable_budget{kind_namespace_name="CloneSet_a_web",username="admin"} 1"#;
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(
        text.contains(r#"pod_unavailable_budget{kind_namespace_name="other",username="other"} 6"#)
    );
}
#[test]
fn refusal_label_of_long_owner_is_cut() {
    let refusals = Refusals::default();
    let mut registry = Registry::default();
    refusals.register(&mut registry);
    let long = "ü".repeat(1_000);
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"namespace": "a", "name": "web-1"}})).unwrap();
    let owner = Owner {
        kind: (&*long).into(),
        name: (&*long).into(),
        controller: true,
        ..Owner::default()
    };
    let pod = Pod {
        metadata: Metadata {
            owner_references: [owner].into(),
            ..pod.metadata
        },
        ..pod
    };
    refusals.count(&pod, &long);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let (kind, name, user) = ("ü".repeat(31), "ü".repeat(126), "ü".repeat(128));
    let line = format!(r#"{{kind_namespace_name="{kind}_a_{name}",username="{user}"}} 1"#);
    assert!(text.contains(&line), "{text}");
}
