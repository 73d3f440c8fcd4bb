use serde_json::{Value, json};

use super::*;

fn revision(number: i64, uid: &str, image: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("web-{number}a"),
            "namespace": "default",
            "creationTimestamp": "2026-11-30T00:00:00Z",
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "CloneSet",
                "name": "web",
                "uid": uid,
                "controller": true,
            }],
        },
        "revision": number,
        "data": {"spec": {"template": {
            "$patch": "replace",
            "metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        }}},
    })
}

fn target() -> Target {
    Target::parse(&["cloneset/web".to_owned()]).unwrap()
}

#[test]
fn only_revisions_of_the_owner_are_listed_by_number() {
    let mut orphan = revision(9, "u", "web:9");
    orphan["metadata"]["ownerReferences"] = json!([]);
    let listed = vec![
        revision(10, "u", "web:10"),
        revision(2, "other", "web:2"),
        orphan,
        revision(3, "u", "web:3"),
    ];
    let owned = owned(listed, "u");
    let numbers: Vec<_> = owned.iter().map(|one| number(one, "/revision")).collect();
    assert_eq!(numbers, [3, 10]);
}

#[test]
fn template_has_no_patch_directive_and_no_time() {
    let template = template_of(&revision(1, "u", "web:1")).unwrap();
    let wanted = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    });
    assert_eq!(template, wanted);
}

#[test]
fn revision_without_template_is_an_error() {
    let mut odd = revision(1, "u", "web:1");
    for data in [Value::Null, json!({"spec": {"template": "x"}}), json!(3)] {
        odd["data"] = data;
        assert!(template_of(&odd).is_err());
    }
}

#[test]
fn missing_revision_names_those_that_exist() {
    let all = [revision(1, "u", "web:1"), revision(3, "u", "web:3")];
    let error = find(&all, 2, &target()).unwrap_err().to_string();
    assert_eq!(
        error,
        r#"clonesets.apps.kruise.io "web" has no revision 2; it has 1, 3"#
    );
    let error = find(&[], 2, &target()).unwrap_err().to_string();
    assert_eq!(
        error,
        r#"clonesets.apps.kruise.io "web" has no revision yet"#
    );
    assert_eq!(find(&all, 3, &target()).unwrap(), &all[1]);
}

#[test]
fn row_marks_current_and_update_revision() {
    let now = "2026-11-30T00:01:00Z".parse().unwrap();
    let mut one = revision(1, "u", "web:1");
    one["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    let object = |current: &str, update: &str| {
        let status = json!({"currentRevision": current, "updateRevision": update});
        json!({"status": status})
    };
    let row = |object| row(&one, &object, now).join("|");
    assert_eq!(row(object("web-1a", "web-2a")), "1|first|web:1|60s|current");
    // A DaemonSet's status has the hash alone.
    assert_eq!(row(object("", "1a")), "1|first|web:1|60s|update");
    assert_eq!(
        row(object("web-1a", "web-1a")),
        "1|first|web:1|60s|current, update"
    );
    assert_eq!(row(json!({})), "1|first|web:1|60s|");
}

#[test]
fn revision_is_found_by_name_or_hash() {
    let all = [revision(1, "u", "web:1"), revision(3, "u", "web:3")];
    assert_eq!(number_of(&all, "web-3a"), Some(3));
    assert_eq!(number_of(&all, "3a"), Some(3));
    assert_eq!(number_of(&all, "4a"), None);
    assert_eq!(number_of(&all, ""), None);
}
