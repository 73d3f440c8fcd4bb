use serde_json::{Value, json};

use super::*;
use crate::sidecarset::names::CANARY;

fn set(name: &str, fields: &Value) -> Arc<SidecarSet> {
    let mut set = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "a"}]},
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(serde_json::from_value(set).unwrap())
}

#[test]
fn overlapping_sets_may_not_share_names() {
    let container = |name: &str| json!([{"name": name, "image": "a"}]);
    let same = json!({"/spec/containers": container("agent")});
    let elsewhere = |value: &str| json!({"/spec/containers": container("agent"), "/spec/selector": {"matchLabels": {"app": value}}});
    let hot = json!({"/spec/containers": [{"name": "agent", "image": "a", "upgradeStrategy": {"upgradeType": "HotUpgrade"}}]});
    let volume = |path: &str| json!({"/spec/volumes": [{"name": "v", "hostPath": {"path": path}}]});
    let writes = |policy: &str| json!({"/spec/patchPodMetadata": [{"annotations": {"k": "{}"}, "patchPolicy": policy}]});
    for (what, one, other, says) in [
        (
            "the same container",
            &same,
            &same,
            Some("spec.containers: agent"),
        ),
        ("in other pods", &same, &elsewhere("db"), None),
        (
            "a hot one's half",
            &json!({"/spec/containers": container("agent-1")}),
            &hot,
            Some("agent-1"),
        ),
        (
            "volumes that differ",
            &volume("/a"),
            &volume("/b"),
            Some("spec.volumes: \"v\""),
        ),
        (
            "volumes that are the same",
            &volume("/a"),
            &volume("/a"),
            None,
        ),
        (
            "annotations that are overwritten",
            &writes("Overwrite"),
            &writes("MergePatchJson"),
            Some("spec.patchPodMetadata: k"),
        ),
        (
            "annotations that are merged",
            &writes("MergePatchJson"),
            &writes("MergePatchJson"),
            None,
        ),
    ] {
        let found = faults(&set("one", one), &[set("other", other)], None, None);
        match says {
            Some(says) => assert!(
                found.len() == 1 && found[0].contains(says),
                "{what}: {found:?}"
            ),
            None => assert!(found.is_empty(), "{what}: {found:?}"),
        }
    }
}

#[test]
fn annotation_that_is_not_allowed_is_a_fault() {
    let key = |key: &str| json!({"/spec/patchPodMetadata": [{"annotations": {"ok": "1"}}, {"annotations": {key: "1"}}]});
    let not_allowed = "is not allowed by ConfigMap kruise-configuration, key SidecarSet_PatchPodMetadata_WhiteList: add an \
                           expression there, or remove it";
    let ours = "is one by which a pod says which sidecars it has: remove it";
    let both = ["ok", "example.org/a", "kruise.io/sidecarset-hash"];
    for (what, of, allowed, says) in [
        (
            "not allowed",
            "example.org/a",
            Some(&["ok"][..]),
            Some(not_allowed),
        ),
        ("allowed", "example.org/a", Some(&both[..]), None),
        ("the allowed keys are unknown", "example.org/a", None, None),
        (
            "ours, though it is allowed",
            "kruise.io/sidecarset-hash",
            Some(&both[..]),
            Some(ours),
        ),
        (
            "ours, and the allowed keys are unknown",
            "version.sidecarset.kruise.io/mesh-1",
            None,
            Some(ours),
        ),
    ] {
        let allowed = allowed.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
        let found = faults(&set("one", &key(of)), &[], None, allowed.as_ref());
        let field = "spec.patchPodMetadata[1].annotations";
        let expected: Vec<_> = says
            .iter()
            .map(|says| format!("{field}: Invalid value {of:?}: {says}"))
            .collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn overwriting_an_annotation_patched_twice_is_refused() {
    for (policies, is_fault) in [
        (["Overwrite", "Overwrite"], true),
        (["Overwrite", "MergePatchJson"], true),
        (["MergePatchJson", "Overwrite"], true),
        (["MergePatchJson", "MergePatchJson"], false),
        (["Retain", "Overwrite"], false),
        (["Overwrite", "Retain"], false),
    ] {
        let patch = |policy| json!({"annotations": {"a": "{}"}, "patchPolicy": policy});
        let patches = policies.map(patch);
        let found = faults(
            &set("one", &json!({"/spec/patchPodMetadata": patches})),
            &[],
            None,
            None,
        );
        let fault = "spec.patchPodMetadata[1].annotations: Invalid value \"a\": another patch writes it, too: write it in one of them";
        let expected: &[&str] = if is_fault { &[fault] } else { &[] };
        assert_eq!(found, expected, "{policies:?}");
    }
}

#[test]
fn canary_neither_has_nor_is_the_base_of_a_canary() {
    let canary = |name: &str, base: &str| {
        set(
            name,
            &json!({"/metadata/annotations": {CANARY: "true", BASE: base}}),
        )
    };
    let plain = |name: &str| set(name, &json!({}));
    for (what, set, others, says) in [
        (
            "its base is a SidecarSet",
            canary("c", "a"),
            vec![plain("a")],
            None,
        ),
        (
            "beside another canary of it",
            canary("c", "a"),
            vec![plain("a"), canary("b", "a")],
            None,
        ),
        (
            "its base is none",
            canary("c", "a"),
            vec![plain("b")],
            Some("there is no SidecarSet a; name one that is there"),
        ),
        (
            "its base is a canary",
            canary("c", "b"),
            vec![plain("a"), canary("b", "a")],
            Some("b is a canary itself: name its base a"),
        ),
        (
            "its base says of what it would be one, and is none",
            canary("c", "b"),
            vec![
                plain("a"),
                set(
                    "b",
                    &json!({"/metadata/annotations": {CANARY: "false", BASE: "a"}}),
                ),
            ],
            None,
        ),
        (
            "it has a canary",
            canary("b", "a"),
            vec![plain("a"), canary("c", "b")],
            Some(
                "c is a canary of this one, which cannot be a canary then: delete it, or remove the annotation",
            ),
        ),
    ] {
        let found = faults(&set, &others, None, None);
        let expected: Vec<_> = says
            .iter()
            .map(|says| format!("metadata.annotations[{BASE}]: {says}"))
            .collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn canary_may_share_names_only_with_its_base() {
    let of = |name: &str, base: &str, app: &str| {
        let annotations = if base.is_empty() {
            json!({})
        } else {
            json!({CANARY: "true", BASE: base})
        };
        let fields = json!({
            "/metadata/annotations": annotations, "/spec/selector": {"matchLabels": {"app": app}},
            "/spec/containers": [{"name": "agent", "image": "a"}],
        });
        set(name, &fields)
    };
    let others = [
        of("log", "", "web"),
        of("db", "", "db"),
        of("log-c1", "log", "web"),
    ];
    for (what, set, expected) in [
        ("its base", of("log", "", "web"), &[][..]),
        ("itself", of("log-c1", "log", "web"), &[]),
        (
            "another canary, in the same pods",
            of("log-c2", "log", "web"),
            &["log-c1"],
        ),
        (
            "another canary, in other pods",
            of("log-c2", "log", "cache"),
            &[],
        ),
        (
            "a canary of another base",
            of("db-c1", "db", "web"),
            &["log", "log-c1"],
        ),
    ] {
        let found = faults(&set, &others, None, None);
        let is_it = |(found, name): (&String, &&str)| {
            found.contains(&format!("of SidecarSet {name}, which may"))
        };
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(is_it),
            "{what}: {found:?}"
        );
    }
}

#[test]
fn base_revision_and_expressions_are_validated() {
    let canary = json!({"/metadata/annotations": {CANARY: "true", BASE: "base"}, "/spec/containers": [{"name": "base", "image": "a"}]});
    assert!(
        faults(&set("one", &canary), &[], None, None)[0].contains("there is no SidecarSet base")
    );
    assert!(
        faults(&set("one", &canary), &[set("base", &json!({}))], None, None).is_empty(),
        "its base may have the same"
    );
    let pinned = json!({"/spec/injectionStrategy": {"revision": {"revisionName": "one-1"}}});
    assert!(faults(&set("one", &pinned), &[], Some(&[]), None)[0].contains("one-1"));
    assert!(
        faults(&set("one", &pinned), &[], None, None).is_empty(),
        "the revisions are unknown"
    );
    let policy =
        json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*cpu"}}});
    let squared =
        json!({"/spec/containers": [{"name": "a", "image": "a", "resourcesPolicy": policy}]});
    let found = faults(&set("one", &squared), &[], None, None);
    assert!(
        found[0].starts_with("spec.containers[a].resourcesPolicy.resourcesExpr.limits.cpu: "),
        "{found:?}"
    );
}

#[test]
fn exclusive_selectors_may_share_a_container_name() {
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    let (canary, others) = (
        expression("In", json!(["canary"])),
        expression("NotIn", json!(["canary"])),
    );
    let (there, away) = (
        expression("Exists", Value::Null),
        expression("DoesNotExist", Value::Null),
    );
    let is = |value: &str| json!({"matchLabels": {"a": value}});
    for (one, other, meet) in [
        (&canary, &others, false),
        (&there, &away, false),
        (&is("canary"), &others, false),
        (&is("1"), &is("2"), false),
        (&is("1"), &expression("In", json!(["2"])), false),
        (&is("1"), &away, false),
        (&is("1"), &expression("In", json!(["1", "2"])), true),
        (&is("1"), &there, true),
        (&others, &away, true),
        // A selector without a demand on a label excludes nothing, regardless of the other
        // selector's demand.
        (&there, &json!({"matchLabels": {"b": "2"}}), true),
        (&canary, &Value::Null, true),
        (&canary, &json!({}), true),
        // An invalid selector.
        (&expression("Is", Value::Null), &is("1"), true),
    ] {
        for field in ["/spec/selector", "/spec/namespaceSelector"] {
            let of = |selector: &Value| json!({field: selector, "/spec/containers": [{"name": "agent", "image": "a"}]});
            for (one, other) in [(one, other), (other, one)] {
                let found = faults(
                    &set("one", &of(one)),
                    &[set("other", &of(other))],
                    None,
                    None,
                );
                assert_eq!(
                    found.len(),
                    usize::from(meet),
                    "{field} {one} {other}: {found:?}"
                );
            }
        }
    }
}
