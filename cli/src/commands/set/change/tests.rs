use berth_workload::objects::resource::CLONE_SETS;

use super::*;
use crate::objects;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn spec() -> Value {
    json!({
        "containers": [
            {"name": "app", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}]},
            {"name": "log", "image": "log:1"},
        ],
        "initContainers": [{"name": "init", "image": "init:1"}],
    })
}

#[test]
fn assignments_follow_the_object() {
    let table = [
        (
            "cloneset/web a=1 b-",
            Some((1, vec![("a", Some("1")), ("b", None)])),
        ),
        ("cloneset web a=b=c", Some((2, vec![("a", Some("b=c"))]))),
        ("cloneset/web a=", Some((1, vec![("a", Some(""))]))),
        ("cloneset/web", None),
        ("cloneset/web a=1 b", None),
        ("cloneset/web =1", None),
    ];
    for (text, expected) in table {
        let words = words(text);
        let read = assignments(&words).ok();
        let read = read.map(|(object, all)| (object.len(), all));
        let expected = expected.map(|(object, all)| {
            let owned =
                |(key, value): (&str, Option<&str>)| (key.to_owned(), value.map(str::to_owned));
            (object, all.into_iter().map(owned).collect())
        });
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn images_of_matching_containers_change() {
    for (text, expected) in [
        ("x/y app=web:2", Some(["web:2", "log:1", "init:1"])),
        ("x/y init=init:2", Some(["web:1", "log:1", "init:2"])),
        ("x/y *=all:1 log=log:2", Some(["all:1", "log:2", "all:1"])),
        ("x/y other=web:2", None),
        ("x/y app-", None),
    ] {
        let words = words(text);
        let (_, pairs) = assignments(&words).unwrap();
        let mut spec = spec();
        let set = images(&mut spec, &pairs).ok().map(|()| {
            ["/containers/0", "/containers/1", "/initContainers/0"]
                .map(|at| objects::text(&spec, &format!("{at}/image")).to_owned())
        });
        assert_eq!(set, expected.map(|all| all.map(str::to_owned)), "{text}");
    }
}

#[test]
fn env_is_set_replaced_and_removed() {
    let words = words("x/y A- B=2 C=3");
    let (_, pairs) = assignments(&words).unwrap();
    let mut changed = spec();
    env(&mut changed, &["app".to_owned()], &pairs).unwrap();
    assert_eq!(
        changed["containers"][0]["env"],
        json!([{"name": "B", "value": "2"}, {"name": "C", "value": "3"}])
    );
    assert_eq!(changed["containers"][1], spec()["containers"][1]);
    let removed = vec![("B".to_owned(), None), ("C".to_owned(), None)];
    env(&mut changed, &["*".to_owned()], &removed).unwrap();
    assert!(changed["containers"][0].get("env").is_none());
}

#[test]
fn amounts_must_be_quantities() {
    assert!(amounts(&words("cpu=1 memory=1Gi"), &words("cpu=100m")).is_ok());
    for (limits, requests) in [("cpu", ""), ("", "cpu=x"), ("=1", ""), ("", "")] {
        assert!(
            amounts(&words(limits), &words(requests)).is_err(),
            "{limits} {requests}"
        );
    }
}

#[test]
fn resources_are_merged_into_the_others() {
    let mut changed = spec();
    changed["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let all = amounts(&words("cpu=2"), &words("cpu=100m")).unwrap();
    resources(&mut changed, &["app".to_owned()], &all).unwrap();
    assert_eq!(
        changed["containers"][0]["resources"],
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
    );
}

#[test]
fn sidecarset_has_no_service_account() {
    let set = |spec: &mut Value| service_account(spec, "robot");
    let object = json!({"spec": spec()});
    assert!(applied(SIDECAR_SETS, &object, set).is_err());
    let object = json!({"spec": {"template": {"spec": {"serviceAccount": "old"}}}});
    let new = applied(CLONE_SETS, &object, set).unwrap();
    assert_eq!(
        new["spec"]["template"]["spec"],
        json!({"serviceAccount": "robot", "serviceAccountName": "robot"})
    );
    assert!(service_account(&mut json!({}), "a/b").is_err());
}
