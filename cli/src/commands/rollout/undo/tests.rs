use serde_json::{Value, json};

use super::*;

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

fn revision(number: i64, image: &str) -> Value {
    let mut template = template(image);
    template["$patch"] = json!("replace");
    json!({
        "metadata": {"name": format!("web-{number}a"), "namespace": "default"},
        "revision": number,
        "data": {"spec": {"template": template}},
    })
}

fn target(words: &str) -> Target {
    Target::parse(&[words.to_owned()]).unwrap()
}

#[track_caller]
fn check(all: &[Value], image: &str, wanted: Option<i64>, number: Option<i64>) {
    let chosen = choose(all, &template(image), wanted, &target("cloneset/web"));
    let found = chosen.ok().map(|chosen| match chosen {
        Chosen::Present(number) => -number,
        Chosen::Earlier(revision) => super::number(revision, "/revision"),
    });
    assert_eq!(found, number);
}

#[test]
fn chosen_revision_differs_from_the_present_template() {
    let all = [
        revision(1, "web:1"),
        revision(2, "web:2"),
        revision(3, "web:3"),
    ];
    check(&all, "web:3", None, Some(2));
    // The controller has not seen the new template yet.
    check(&all, "web:4", None, Some(3));
    // A rollback that the controller has not seen yet.
    check(&all, "web:1", None, Some(3));
    check(&all, "web:3", Some(1), Some(1));
    check(&all, "web:3", Some(3), Some(-3));
    check(&all, "web:3", Some(4), None);
    check(&all[..1], "web:1", None, None);
    check(&[], "web:1", None, None);
}

#[test]
fn missing_earlier_revision_is_an_error() {
    let all = [revision(1, "web:1")];
    let error = choose(&all, &template("web:1"), None, &target("ads/web"));
    assert_eq!(
        error.unwrap_err().to_string(),
        r#"daemonsets.apps.kruise.io "web" has no earlier revision"#
    );
}
