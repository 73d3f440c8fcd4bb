use serde_json::json;

use super::*;

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}},
        "spec": {"containers": [{"name": "main", "image": "web:1", "env": [{"name": "X", "value": "1"}]}, {"name": "side", "image": "side:1"}]},
    })
}

fn recreate(fields: &[&str]) -> Change {
    Change::Recreate {
        fields: fields.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn nothing_differs() {
    assert_eq!(
        between(&template(), &template(), Ability::Off),
        Change::InPlace(PodPatch::default())
    );
    let mut same = template();
    same["metadata"]["creationTimestamp"] = Value::Null;
    same["spec"]["volumes"] = json!([]);
    same["spec"]["dnsConfig"] = json!({});
    assert_eq!(
        between(&template(), &same, Ability::On),
        Change::InPlace(PodPatch::default())
    );
    assert_eq!(
        between(&same, &template(), Ability::On),
        Change::InPlace(PodPatch::default())
    );
}

#[test]
fn a_container_that_had_no_image_gets_none_in_place() {
    let mut old = template();
    old["spec"]["containers"][0]["image"] = Value::Null;
    assert_eq!(
        between(&old, &template(), Ability::Off),
        recreate(&["template.spec.containers[main].image"])
    );
}

#[test]
fn images_and_metadata_go_in_place() {
    let mut new = template();
    new["spec"]["containers"][1]["image"] = json!("side:2");
    new["metadata"]["labels"]["tier"] = json!("front");
    new["metadata"]["annotations"] = json!({});
    let expected = PodPatch {
        labels: [("tier".to_owned(), Some("front".to_owned()))].into(),
        annotations: [("a".to_owned(), None)].into(),
        images: [("side".to_owned(), "side:2".to_owned())].into(),
        ..PodPatch::default()
    };
    assert_eq!(
        between(&template(), &new, Ability::Off),
        Change::InPlace(expected)
    );
}

#[test]
fn other_changes_recreate_and_are_named() {
    type Edit = fn(&mut Value);
    let table: [(Edit, &[&str]); 7] = [
        (
            |t| t["spec"]["containers"][0]["env"][0]["value"] = json!("2"),
            &["template.spec.containers[main].env"],
        ),
        (
            |t| t["spec"]["nodeName"] = json!("n"),
            &["template.spec.nodeName"],
        ),
        (
            |t| t["spec"]["initContainers"] = json!([{"name": "i", "image": "i:1"}]),
            &["template.spec.initContainers"],
        ),
        (
            |t| t["spec"]["containers"][0]["name"] = json!("other"),
            &["template.spec.containers"],
        ),
        (
            |t| t["spec"]["containers"][0]["image"] = Value::Null,
            &["template.spec.containers[main].image"],
        ),
        (
            |t| t["metadata"]["finalizers"] = json!(["x/y"]),
            &["template.metadata.finalizers"],
        ),
        (
            |t| {
                t["spec"]["containers"][0]["image"] = json!("web:2");
                t["spec"]["hostNetwork"] = json!(true);
            },
            &["template.spec.hostNetwork"],
        ),
    ];
    for (edit, fields) in table {
        let mut new = template();
        edit(&mut new);
        assert_eq!(
            between(&template(), &new, Ability::Off),
            recreate(fields),
            "{new}"
        );
    }
}
