//! Facts about OpenKruise: the data and names of its revisions for given templates.
//! `tests/openkruise.json` comes from a running OpenKruise 1.9 (Kubernetes libraries 1.32) with
//! templates made for it.

use std::sync::Arc;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::plan::PodPatch;
use crate::update::inplace::change::{Change, between};
use crate::update::inplace::resize::Ability;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fact {
    what: String,
    template: Value,
    name: String,
    name_after_two_collisions: String,
    /// The revision's data as text.
    data: String,
}

fn facts() -> Vec<Fact> {
    serde_json::from_str(include_str!("tests/openkruise.json")).unwrap()
}

#[test]
fn data_and_names_equal_openkruises_byte_for_byte() {
    for fact in facts() {
        let data = data(&fact.template);
        assert_eq!(form::text(&data), fact.data, "{}", fact.what);
        assert_eq!(
            revision_name("web", &hash(&data, 0)),
            fact.name,
            "{}",
            fact.what
        );
        assert_eq!(
            revision_name("web", &hash(&data, 2)),
            fact.name_after_two_collisions,
            "{}",
            fact.what
        );
    }
}

#[test]
fn openkruise_revision_is_recognised_in_any_form() {
    for fact in facts() {
        let metadata = Metadata {
            name: fact.name.as_str().into(),
            ..Metadata::default()
        };
        let revision = Arc::new(Revision {
            metadata,
            revision: 4,
            data: serde_json::from_str(&fact.data).unwrap(),
        });
        for template in [&fact.template, &revision.template()] {
            let found = recognise(template, std::slice::from_ref(&revision));
            assert_eq!(found, Recognised::Newest(revision.clone()), "{}", fact.what);
        }
    }
}

#[test]
fn canonical_form_is_stable() {
    for fact in facts() {
        let once = form::canonical(&fact.template);
        assert_eq!(form::canonical(&once), once, "{}", fact.what);
    }
}

#[test]
fn defaults_alone_are_no_reason_for_a_new_pod() {
    let facts = facts();
    for pair in facts.chunks(2) {
        let [bare, defaulted] = pair else {
            panic!("facts come in pairs")
        };
        // From OpenKruise's own spelling to one without defaults, as kubectl leaves it.
        let change = between(&defaulted.template, &bare.template, Ability::Off);
        assert_eq!(
            change,
            Change::InPlace(PodPatch::default()),
            "{}",
            bare.what
        );
    }
    // And the other way, where what the server defaults to is written out.
    let mut spelled = facts[1].template.clone();
    spelled["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    assert_eq!(
        between(&facts[0].template, &spelled, Ability::Off),
        Change::InPlace(PodPatch::default())
    );
}

#[test]
fn readiness_gates_of_every_pod_replace_no_pod() {
    let gates = |types: &[&str]| {
        let mut template = facts().remove(0).template;
        let gates: Vec<_> = types
            .iter()
            .map(|type_| json!({"conditionType": type_}))
            .collect();
        template["spec"]["readinessGates"] = json!(gates);
        template
    };
    let bare = facts().remove(0).template;
    let unchanged = Change::InPlace(PodPatch::default());
    let replaced = Change::Recreate {
        fields: vec!["template.spec.readinessGates".to_owned()],
    };
    let table: [(&Value, &[&str], &Change); 4] = [
        (&bare, &["InPlaceUpdateReady"], &unchanged),
        (
            &gates(&["mine"]),
            &["mine", "InPlaceUpdateReady", "KruisePodReady"],
            &unchanged,
        ),
        (&bare, &["mine", "InPlaceUpdateReady"], &replaced),
        (&gates(&["mine"]), &["InPlaceUpdateReady"], &replaced),
    ];
    for (old, types, expected) in table {
        let new = gates(types);
        assert_eq!(between(old, &new, Ability::Off), *expected, "{types:?}");
        assert_eq!(
            between(&new, old, Ability::Off),
            *expected,
            "{types:?}, taken away"
        );
    }
    // OpenKruise searches for the bytes of the template, so that the gate needs a revision that
    // names it.
    let named = gates(&["InPlaceUpdateReady"]);
    assert_eq!(
        recognise_meaning(&named, &[revision("w-a", 1, &bare)]),
        None
    );
}

#[test]
fn values_other_than_defaults_make_a_new_pod() {
    type Edit = fn(&mut Value);
    let table: [(Edit, &str); 5] = [
        (
            |t| t["spec"]["terminationGracePeriodSeconds"] = json!(31),
            "template.spec.terminationGracePeriodSeconds",
        ),
        (
            |t| t["spec"]["containers"][0]["imagePullPolicy"] = json!("Never"),
            "template.spec.containers[main].imagePullPolicy",
        ),
        (
            |t| t["spec"]["containers"][0]["imagePullPolicy"] = json!("Always"),
            "template.spec.containers[main].imagePullPolicy",
        ),
        (
            |t| {
                t["spec"]["containers"][0]["terminationMessagePolicy"] =
                    json!("FallbackToLogsOnError")
            },
            "template.spec.containers[main].terminationMessagePolicy",
        ),
        (
            |t| t["spec"]["securityContext"] = json!({"runAsUser": 0}),
            "template.spec.securityContext",
        ),
    ];
    let bare = facts().remove(0).template;
    for (edit, field) in table {
        let mut new = bare.clone();
        edit(&mut new);
        assert_eq!(
            between(&bare, &new, Ability::Off),
            Change::Recreate {
                fields: vec![field.to_owned()]
            }
        );
    }
}

fn revision(name: &str, number: i64, template: &Value) -> Arc<Revision> {
    let metadata = Metadata {
        name: name.into(),
        ..Metadata::default()
    };
    Arc::new(Revision {
        metadata,
        revision: number,
        data: JsonText::from(&data(template)),
    })
}

#[test]
fn a_template_is_recognised_in_the_history() {
    let (a, b, c) = (
        json!({"spec": {"a": 1}}),
        json!({"spec": {"b": 2}}),
        json!({"spec": {"c": 2}}),
    );
    let history = [revision("w-a", 1, &a), revision("w-b", 2, &b)];
    assert_eq!(
        recognise(&b, &history),
        Recognised::Newest(history[1].clone())
    );
    assert_eq!(
        recognise(&a, &history),
        Recognised::Older(history[0].clone(), 3)
    );
    assert_eq!(recognise(&c, &history), Recognised::New(3));
    assert_eq!(recognise(&a, &[]), Recognised::New(1));
    assert_eq!(
        recognise(&a, &[revision("w-b", i64::MAX, &b)]),
        Recognised::New(i64::MAX),
        "there is no higher number"
    );
    assert_eq!(history[0].template(), form::canonical(&a));
}

#[test]
fn a_new_revision_has_the_form_of_the_newest() {
    let claim =
        json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {}}}}});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": [claim]}});
    let openkruise = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null},"spec":{}}}}"#;
    let kubernetes = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{}}}}"#;
    let nameless = r#"{"spec":{"template":{"$patch":"replace","spec":{}}}}"#;
    let dated = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null},"spec":{"resources":{}}}},"name":"v"}]}}}}"#;
    let undated = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{},"spec":{"resources":{}}}},"name":"v"}]}}}}"#;
    let table = [
        ("no history", None, dated),
        ("OpenKruise's", Some(openkruise), dated),
        ("Kubernetes'", Some(kubernetes), undated),
        ("one without metadata", Some(nameless), dated),
    ];
    for (what, newest, expected) in table {
        let held = newest.map(|text| Revision {
            metadata: Metadata::default(),
            revision: 1,
            data: serde_json::from_str(text).unwrap(),
        });
        let text = form::text(&data_like(held.as_ref(), &template));
        assert_eq!(text, expected, "{what}");
        let made = Revision {
            metadata: Metadata::default(),
            revision: 2,
            data: serde_json::from_str(&text).unwrap(),
        };
        let made = [Arc::new(made)];
        assert_eq!(
            recognise(&template, &made),
            Recognised::Newest(made[0].clone()),
            "{what}"
        );
    }
}

#[test]
fn newest_of_duplicate_revisions_is_kept() {
    let (a, b) = (json!({"spec": {"a": 1}}), json!({"spec": {"b": 2}}));
    // The same in another spelling: the types leave this out.
    let spelled =
        r#"{"spec":{"template":{"$patch":"replace","spec":{"hostNetwork":false,"a":1}}}}"#;
    let metadata = Metadata {
        name: "w-s".into(),
        ..Metadata::default()
    };
    let spelled = Arc::new(Revision {
        metadata,
        revision: 4,
        data: serde_json::from_str(spelled).unwrap(),
    });
    let of = |name: &str, number, template| revision(name, number, template);
    type Case<'a> = (&'a str, Vec<Arc<Revision>>, &'a [(&'a str, &'a str)]);
    let table: [Case<'_>; 6] = [
        ("none", vec![], &[]),
        ("one", vec![of("w-1", 1, &a)], &[]),
        (
            "two templates",
            vec![of("w-1", 1, &a), of("w-2", 2, &b)],
            &[],
        ),
        (
            "two of one",
            vec![of("w-1", 1, &a), of("w-2", 2, &a)],
            &[("w-1", "w-2")],
        ),
        (
            "one between them",
            vec![of("w-1", 1, &a), of("w-2", 2, &b), of("w-3", 3, &a)],
            &[("w-1", "w-3")],
        ),
        (
            "three, one in another spelling, and two",
            vec![
                of("w-1", 1, &a),
                of("w-2", 2, &b),
                of("w-3", 2, &b),
                of("w-5", 3, &a),
                spelled,
            ],
            &[("w-5", "w-s"), ("w-2", "w-3"), ("w-1", "w-s")],
        ),
    ];
    for (what, history, expected) in table {
        let found: Vec<_> = duplicates(&history)
            .iter()
            .map(|(a, b)| [a, b].map(|it| &*it.metadata.name))
            .collect();
        assert_eq!(
            found,
            expected.iter().map(|(a, b)| [*a, *b]).collect::<Vec<_>>(),
            "{what}"
        );
    }
}

#[test]
fn template_with_other_fields_is_a_new_revision() {
    let (less, more) = (
        json!({"spec": {"a": 1}}),
        json!({"spec": {"a": 1}, "kind": "x"}),
    );
    assert_eq!(
        recognise(&less, &[revision("w-a", 1, &more)]),
        Recognised::New(2)
    );
    assert_eq!(
        recognise(&more, &[revision("w-a", 1, &less)]),
        Recognised::New(2)
    );
}

#[test]
fn labels_hold_the_name_or_the_hash() {
    let history = [
        revision("web-6d5f", 1, &json!({})),
        revision("web-77c8", 2, &json!({})),
    ];
    for label in ["web-77c8", "77c8"] {
        assert_eq!(
            of_label(label, &history).map(|r| &*r.metadata.name),
            Some("web-77c8")
        );
    }
    assert!(of_label("", &history).is_none());
    assert!(!same("", ""));
}

#[test]
fn the_oldest_unused_go_first() {
    let history: Vec<_> = (1..=5)
        .map(|n| revision(&format!("w-{n}"), n, &json!({})))
        .collect();
    let names = |limit| {
        let dropped = beyond_limit(&history, limit, |name| name == "w-2" || name == "w-5");
        dropped
            .iter()
            .map(|r| r.metadata.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(1), ["w-1", "w-3"]);
    assert_eq!(names(3), [""; 0]);
    assert_eq!(names(-1), ["w-1", "w-3", "w-4"]);
}

fn unknown_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        "[ab]?".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Value::from),
            prop::collection::btree_map("new[AB]", inner, 0..3)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn unknown_field_is_kept_and_changes_by_new_pods(
        place in prop::sample::select(vec!["", "/metadata", "/spec", "/spec/volumes/0", "/spec/containers/0", "/spec/containers/0/env/0"]),
        values in (prop::option::of(unknown_value()), prop::option::of(unknown_value())),
    ) {
        let of = |value: &Option<Value>| {
            let container = json!({"name": "main", "image": "web:1", "env": [{"name": "A", "value": "1"}]});
            let mut template = json!({"metadata": {}, "spec": {"volumes": [{"name": "v"}], "containers": [container]}});
            if let Some(value) = value {
                template.pointer_mut(place).unwrap()["isNew"] = value.clone();
            }
            template
        };
        let (old, new) = (of(&values.0), of(&values.1));
        let kept = revision("w-a", 1, &old);
        let held = kept.template();
        prop_assert_eq!(held.pointer(place).unwrap().get("isNew"), values.0.as_ref());
        let is_same = values.0 == values.1;
        prop_assert_eq!(matches!(recognise(&new, &[kept]), Recognised::Newest(_)), is_same);
        for ability in [Ability::Off, Ability::On] {
            prop_assert_eq!(matches!(between(&old, &new, ability), Change::InPlace(_)), is_same);
        }
    }
}

/// Fields that Kubernetes 1.34 to 1.37 write into a pod or a template. Other versions or feature
/// gates omit them.
#[test]
fn defaults_of_newer_servers_replace_no_pod() {
    let with = |path: &str, value: Value| {
        let probe = json!({"httpGet": {"port": 80}});
        let env = json!([{"name": "A", "valueFrom": {"fileKeyRef": {"key": "a", "path": "p", "volumeName": "v"}}}]);
        let container = json!({
            "name": "main", "image": "web:1", "env": env, "livenessProbe": probe, "lifecycle": {"preStop": probe},
        });
        let disk = json!({"diskName": "d", "diskURI": "u"});
        let volumes = json!([
            {"name": "tagged", "image": {"reference": "data:1"}}, {"name": "latest", "image": {"reference": "data"}},
            {"name": "disk", "azureDisk": disk},
        ]);
        let mut template = json!({"spec": {"volumes": volumes, "containers": [container]}});
        let (holder, field) = path.rsplit_once('/').unwrap();
        template.pointer_mut(holder).unwrap()[field] = value;
        template
    };
    let bare = with("/spec/dnsPolicy", json!("ClusterFirst"));
    let (container, volume) = ("/spec/containers/0", "/spec/volumes");
    for (path, default, other) in [
        (
            format!("{container}/livenessProbe/httpGet/protocol"),
            json!("HTTP1"),
            json!("HTTP2"),
        ),
        (
            format!("{container}/lifecycle/preStop/httpGet/protocol"),
            json!("HTTP1"),
            json!("HTTP2"),
        ),
        (
            format!("{container}/env/0/valueFrom/fileKeyRef/optional"),
            json!(false),
            json!(true),
        ),
        (
            format!("{volume}/0/image/pullPolicy"),
            json!("IfNotPresent"),
            json!("Always"),
        ),
        (
            format!("{volume}/1/image/pullPolicy"),
            json!("Always"),
            json!("IfNotPresent"),
        ),
        (
            format!("{volume}/2/azureDisk/readOnly"),
            json!(false),
            json!(true),
        ),
        (
            "/spec/enableServiceLinks".to_owned(),
            json!(true),
            json!(false),
        ),
    ] {
        let (same, differs) = (with(&path, default), with(&path, other));
        for (old, new) in [(&bare, &same), (&same, &bare)] {
            assert_eq!(
                between(old, new, Ability::Off),
                Change::InPlace(PodPatch::default()),
                "{path}"
            );
        }
        assert!(
            matches!(
                between(&bare, &differs, Ability::Off),
                Change::Recreate { .. }
            ),
            "{path}"
        );
    }
}
