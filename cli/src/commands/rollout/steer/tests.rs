use serde_json::{Value, json};

use super::*;

fn target(words: &str) -> Target {
    Target::parse(&[words.to_owned()]).unwrap()
}

#[test]
fn promotion_removes_partition_and_pause() {
    let kind = target("clone/web").kind;
    let of = |rolling| {
        let old = json!({"spec": {"updateStrategy": {"rollingUpdate": rolling}}});
        let partition = kind.partition().unwrap();
        let new = promoted(&old, partition, kind.paused().unwrap());
        new["spec"]["updateStrategy"]["rollingUpdate"].clone()
    };
    let all = json!({"partition": 0});
    assert_eq!(of(json!({"partition": 4})), all);
    assert_eq!(of(Value::Null), all);
    assert_eq!(
        of(json!({"partition": "50%", "paused": true, "maxSurge": 1})),
        json!({"partition": 0, "paused": false, "maxSurge": 1})
    );
}

#[test]
fn patch_keeps_other_fields() {
    let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {}});
    let new = with(&old, json!({"metadata": {"annotations": {"c": "d"}}}));
    let metadata = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    assert_eq!(new, json!({"metadata": metadata, "spec": {}}));
    let new = with(&Value::Null, at("/a/b", json!(1)));
    assert_eq!(new, json!({"a": {"b": 1}}));
}

#[test]
fn delay_names_pause_and_on_delete() {
    let of = |strategy| {
        let object = json!({"spec": {"updateStrategy": strategy}});
        delay(&target("clone/web"), &object).unwrap_or_default()
    };
    assert!(of(json!({"type": "OnDelete"})).contains("OnDelete"));
    assert!(of(json!({"rollingUpdate": {"paused": true}})).contains("resume cloneset/web"));
    assert_eq!(of(json!({"type": "RollingUpdate"})), "");
}

#[test]
fn partition_is_a_number_or_a_percentage() {
    let of = |words, text| parse(&target(words), text).map_err(|error| error.0);
    assert_eq!(of("clone/web", "2"), Ok(json!(2)));
    assert_eq!(of("clone/web", "50%"), Ok(json!("50%")));
    assert_eq!(of("ads/web", "50%"), Ok(json!("50%")));
    assert_eq!(of("asts/web", "2"), Ok(json!(2)));
    for (words, text) in [
        ("clone/web", "half"),
        ("clone/web", "-1"),
        ("clone/web", ""),
        ("asts/web", "50%"),
        ("asts/web", "-1"),
        ("ads/web", "99999999999"),
    ] {
        assert!(of(words, text).is_err(), "{words} {text}");
    }
}

#[test]
fn reach_counts_as_the_controller() {
    let of = |words: &str, partition: Value| {
        let object = json!({
            "spec": {
                "replicas": 5,
                "updateStrategy": {"rollingUpdate": {"partition": partition}},
            },
            "status": {"desiredNumberScheduled": 5},
        });
        reach(target(words).kind, &object)
    };
    assert_eq!(of("clone/web", json!("50%")), ": updates reach 2 of 5 pods");
    assert_eq!(of("clone/web", json!("half")), "");
    assert_eq!(of("asts/web", json!(9)), ": updates reach 0 of 5 pods");
    assert_eq!(of("ads/web", json!("50%")), ": updates reach 3 of 5 nodes");
}

#[test]
fn kinds_without_rollout_are_refused() {
    for words in ["pod/web", "deploy/web", "pub/web", "clone/Not_A_Name"] {
        assert!(Target::parse(&[words.to_owned()]).is_err(), "{words}");
    }
    assert_eq!(target("ud/web").kind.paused(), None);
    assert_eq!(target("clone/web").argument(), "cloneset/web");
}
