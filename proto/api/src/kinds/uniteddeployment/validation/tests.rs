use serde_json::{Value, json};

use super::ignored;

#[test]
fn ignored_template_fields_are_named_with_remedy() {
    let own = json!({"matchLabels": {"app": "a"}});
    let of = |template: Value| {
        let spec = json!({"selector": own, "template": template});
        ignored(&serde_json::from_value(spec).unwrap())
    };
    let stateful = json!({"replicas": 3, "selector": {"matchLabels": {"app": "b"}},
                          "updateStrategy": {"rollingUpdate": {"partition": 1}}});
    assert_eq!(
        of(json!({"statefulSetTemplate": {"spec": stateful}})),
        [
            "spec.template.statefulSetTemplate.spec.replicas: 3 is ignored: remove it; spec.replicas is divided among the subsets",
            "spec.template.statefulSetTemplate.spec.selector: {\"matchLabels\":{\"app\":\"b\"}} is ignored: remove it; \
             each subset has spec.selector and its own name",
            "spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate.partition: 1 is ignored: remove it; \
             spec.updateStrategy.manualUpdate.partitions has those of the subsets",
        ]
    );
    let older = json!({"selector": own, "updateStrategy": {"partition": "50%"}});
    assert_eq!(
        of(json!({"cloneSetTemplate": {"spec": older}})).len(),
        1,
        "its own selector is the same"
    );
    assert_eq!(
        of(json!({"deploymentTemplate": {"spec": {"minReadySeconds": 1}}})),
        [""; 0]
    );
}
