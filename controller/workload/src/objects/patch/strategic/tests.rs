use proptest::prelude::*;
use serde_json::json;

use super::rules::MERGED_LISTS;
use super::*;

fn merged(template: Value, patch: Value) -> Value {
    strategic_merge(&template, &patch).unwrap()
}

fn pod(spec: Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn merge_changes_fields_and_lists_by_key() {
    let old = pod(json!({
        "containers": [
            {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "log", "image": "log:1"},
        ],
        "tolerations": [{"key": "old"}],
        "nodeSelector": {"arch": "x86", "disk": "ssd"},
        "volumes": [{"name": "v", "emptyDir": {}}],
    }));
    let table = [
        // A container by its name, its variables by theirs.
        (
            json!({"containers": [{"name": "web", "image": "web:2", "env": [{"name": "B", "value": "3"}, {"name": "C"}]}]}),
            "/containers/0",
            json!({"name": "web", "image": "web:2", "env": [
                {"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C"}]}),
        ),
        // The patch's elements go in its order, before those that follow on the server.
        (
            json!({"containers": [{"name": "log"}, {"name": "new", "image": "n"}]}),
            "/containers/2",
            json!({"name": "new", "image": "n"}),
        ),
        // A list without a key is replaced.
        (
            json!({"tolerations": [{"key": "new"}]}),
            "/tolerations",
            json!([{"key": "new"}]),
        ),
        (
            json!({"nodeSelector": {"arch": "arm", "disk": null}}),
            "/nodeSelector",
            json!({"arch": "arm"}),
        ),
        (
            json!({"nodeSelector": {"$patch": "replace", "a": "b"}}),
            "/nodeSelector",
            json!({"a": "b"}),
        ),
        (
            json!({"nodeSelector": {"$patch": "delete"}}),
            "/nodeSelector",
            json!({}),
        ),
        (json!({"nodeSelector": null}), "/nodeSelector", Value::Null),
        (
            json!({"containers": [{"name": "web", "$patch": "delete"}]}),
            "/containers",
            json!([{"name": "log", "image": "log:1"}]),
        ),
        (
            json!({"containers": [{"$patch": "replace"}, {"name": "only"}]}),
            "/containers",
            json!([{"name": "only"}]),
        ),
        (
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}),
            "/volumes",
            json!([{"name": "v", "secret": {"secretName": "s"}}]),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "log"}, {"name": "web"}]}),
            "/containers/0/name",
            json!("log"),
        ),
        // As the apiserver does, an added element takes the place of a deleted one.
        (
            json!({"$setElementOrder/containers": [{"name": "new"}], "containers": [{"name": "new"}, {"name": "log", "$patch": "delete"}]}),
            "/containers/1",
            json!({"name": "new"}),
        ),
        // A directive about a field that is not there does nothing.
        (
            json!({"affinity": {"$patch": "replace", "podAffinity": {}}}),
            "/affinity",
            Value::Null,
        ),
        (
            json!({"hostAliases": [{"ip": "1.1.1.1", "$patch": "delete"}]}),
            "/hostAliases",
            json!([]),
        ),
    ];
    for (patch, pointer, wanted) in table {
        let spec = merged(old.clone(), pod(patch.clone()))["spec"].take();
        let wanted = decoded(wanted);
        assert_eq!(
            spec.pointer(pointer).cloned().unwrap_or_default(),
            wanted,
            "{patch}"
        );
    }
}

#[test]
fn each_merged_list_merges_by_its_key() {
    for (holders, list, key) in MERGED_LISTS {
        for holder in holders {
            let Some(key) = key else { continue };
            let wrap = |items: Value| match *holder {
                "metadata" | "spec" => json!({*holder: {list: items}}),
                containers => json!({"spec": {containers: [{"name": "c", list: items}]}}),
            };
            let old = wrap(json!([{key: 1, "a": 1}, {key: 2}]));
            let new = merged(old, wrap(json!([{key: 2, "b": 2}, {key: 3}])));
            let mut wanted = wrap(json!([{key: 1, "a": 1}, {key: 2, "b": 2}, {key: 3}]));
            if wanted.pointer(&format!("/spec/{holder}/0")).is_some() {
                // Only an object that the patch names is made.
                assert_eq!(
                    new["spec"][*holder][0][list],
                    wanted["spec"][*holder][0][list].take(),
                    "{holder}.{list}"
                );
            } else {
                assert_eq!(new, wanted, "{holder}.{list}");
            }
        }
    }
}

#[test]
fn finalizers_merge_and_delete_texts() {
    let old = json!({"metadata": {"finalizers": ["a/1", "a/2", "a/3"]}});
    let table = [
        (
            json!({"finalizers": ["a/4", "a/2"]}),
            json!(["a/4", "a/1", "a/2", "a/3"]),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["a/2", "a/9"]}),
            json!(["a/1", "a/3"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["a/3", "a/1"]}),
            json!(["a/2", "a/3", "a/1"]),
        ),
        (json!({"finalizers": null}), Value::Null),
    ];
    for (patch, wanted) in table {
        let new = merged(old.clone(), json!({"metadata": patch}));
        assert_eq!(new["metadata"]["finalizers"], wanted, "{patch}");
    }
}

#[test]
fn refused_patch_names_field_and_remedy() {
    let old = json!({
        "metadata": {"finalizers": ["a/1"]},
        "spec": {"containers": [{"name": "web", "env": [{"name": "A"}]}], "volumes": [{"name": "v"}], "nodeSelector": {"a": "b"}},
    });
    let web = |fields: Value| {
        let mut web = json!({"name": "web"});
        web.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        pod(json!({"containers": [web]}))
    };
    let table = [
        (json!("x"), "is a text, but must be an object"),
        (
            pod(json!({"containers": [{"image": "x"}]})),
            "spec.containers[0]: has no \"name\"",
        ),
        (
            pod(json!({"containers": ["web"]})),
            "spec.containers[0]: is a text",
        ),
        (
            web(json!({"env": [{"name": "A"}, {"value": "x"}]})),
            "spec.containers[0].env[1]: has no \"name\"",
        ),
        (
            web(json!({"$patch": "merge"})),
            "spec.containers[0].$patch: is \"merge\"",
        ),
        (
            web(json!({"$retainKeys": "name"})),
            "spec.containers[0].$retainKeys: is a text",
        ),
        (
            web(json!({"$retainKeys": ["image"]})),
            "spec.containers[0].$retainKeys: has no \"name\"",
        ),
        (
            web(json!({"$setElementOrder/env": [{"name": "A"}], "env": [{"name": "B"}]})),
            "$setElementOrder/env: has no \"B\"",
        ),
        (
            pod(json!({"$setElementOrder": []})),
            "spec.$setElementOrder: names no list",
        ),
        (
            pod(json!({"nodeSelector": {"$patch": {"a": 1}}})),
            "spec.nodeSelector.$patch: is {\"a\":1}",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a/1"}}),
            "is a text, but must be a list",
        ),
        (
            json!({"metadata": {"finalizers": [["a/1"]]}}),
            "metadata.finalizers[0]: is a list",
        ),
        (
            json!({"metadata": {"finalizers": [1]}}),
            "metadata.finalizers[0]: is a number",
        ),
    ];
    for (patch, says) in table {
        let error = strategic_merge(&old, &patch).unwrap_err().to_string();
        assert!(error.contains(says), "{patch}: {error}");
    }
}

#[test]
fn deep_patch_is_refused() {
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    assert!(strategic_merge(&json!({}), &deep(DEEPEST - 1)).is_ok());
    assert!(
        strategic_merge(&json!({}), &deep(DEEPEST))
            .unwrap_err()
            .problem
            .contains("nests deeper")
    );
}

/// A list of 1 MB: work in the square of its length would take minutes.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "how long a test goes on is no decision"
)]
fn long_lists_merge_in_linear_time() {
    let list = |from: usize| -> Value {
        (from..from + 30_000)
            .map(|n| json!({"name": format!("V{n}"), "value": "x"}))
            .collect()
    };
    let env = |list: Value| pod(json!({"containers": [{"name": "web", "env": list}]}));
    let started = std::time::Instant::now();
    let new = merged(env(list(0)), env(list(15_000)));
    assert_eq!(
        new["spec"]["containers"][0]["env"].as_array().map(Vec::len),
        Some(45_000)
    );
    assert!(
        started.elapsed() < std::time::Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

fn containers(directives: bool) -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[ABC]", "[12]", 0..3).prop_map(|map| -> Value {
        map.into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect()
    });
    let element = (
        env,
        prop::option::of("[xy]"),
        prop::bool::weighted(if directives { 0.2 } else { 0.0 }),
    );
    prop::collection::btree_map("[abc]", element, 0..4).prop_map(|map| {
        map.into_iter()
            .map(|(name, (env, image, is_deleted))| match is_deleted {
                true => json!({"name": name, "$patch": "delete"}),
                false => json!({"name": name, "image": image, "env": env}),
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn merge_is_idempotent_and_keeps_other_elements(old in containers(false), new in containers(true)) {
        let patch = pod(json!({"containers": new.clone()}));
        let once = merged(pod(json!({"containers": old.clone()})), patch.clone());
        prop_assert_eq!(merged(once.clone(), patch), once.clone());
        let names = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().map(|item| item["name"].to_string()).collect()
        };
        let of_patch = names(&new);
        let wanted: Vec<_> = names(&old).into_iter().filter(|name| !of_patch.contains(name)).collect();
        let kept: Vec<_> = names(&once["spec"]["containers"]).into_iter().filter(|name| !of_patch.contains(name)).collect();
        prop_assert_eq!(kept, wanted);
        for element in new.as_array().into_iter().flatten() {
            let deleted = element.get("$patch").is_some();
            let there = names(&once["spec"]["containers"]).contains(&element["name"].to_string());
            prop_assert_eq!(there, !deleted);
        }
    }

    #[test]
    fn empty_patch_changes_nothing(old in containers(false)) {
        let old = decoded(pod(json!({"containers": old})));
        prop_assert_eq!(merged(old.clone(), json!({})), old);
    }
}
