//! SidecarSet: a namespace and a label of v1alpha1.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ALPHA, BETA, anything, memory, object, one_of, other, to, with};
use crate::names::annotation::CONVERSION;
use crate::names::label::{NAMESPACE_NAME, SIDECARSET_CUSTOM_VERSION};

fn set(version: &str, labels: &Value, spec: &Value) -> Value {
    let mut set = json!({"apiVersion": version, "kind": "SidecarSet", "metadata": {"name": "demo"}, "spec": spec});
    if *labels != json!({}) {
        set["metadata"]["labels"] = labels.clone();
    }
    set
}

fn of(namespace: &str) -> Value {
    json!({"matchLabels": {NAMESPACE_NAME: namespace}})
}

/// Each object of v1alpha1, its v1beta1, and whether the memory annotation is needed.
#[test]
fn v1alpha1_fields_survive_conversion_to_v1beta1() {
    let labelled = json!({SIDECARSET_CUSTOM_VERSION: "v1", "mine": "x"});
    for (labels, alpha, kept, beta, is_remembered) in [
        (json!({}), json!({}), json!({}), json!({}), false),
        (
            json!({}),
            json!({"containers": [{"x": 1}]}),
            json!({}),
            json!({"containers": [{"x": 1}]}),
            false,
        ),
        (
            json!({}),
            json!({"namespace": "a"}),
            json!({}),
            json!({"namespaceSelector": of("a")}),
            true,
        ),
        (
            json!({}),
            json!({"namespace": ""}),
            json!({}),
            json!({}),
            true,
        ),
        (
            json!({}),
            json!({"namespaceSelector": of("a")}),
            json!({}),
            json!({"namespaceSelector": of("a")}),
            false,
        ),
        (
            json!({}),
            json!({"namespace": "a", "namespaceSelector": of("a")}),
            json!({}),
            json!({"namespaceSelector": of("a")}),
            true,
        ),
        // A manifest that is applied again with another namespace.
        (
            json!({}),
            json!({"namespace": "b", "namespaceSelector": of("a")}),
            json!({}),
            json!({"namespaceSelector": of("b")}),
            true,
        ),
        (
            json!({}),
            json!({"namespace": "a", "namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}),
            json!({}),
            json!({"namespaceSelector": of("a")}),
            true,
        ),
        (
            labelled,
            json!({}),
            json!({"mine": "x"}),
            json!({"customVersion": "v1"}),
            false,
        ),
        (
            json!({SIDECARSET_CUSTOM_VERSION: "v1"}),
            json!({}),
            json!({}),
            json!({"customVersion": "v1"}),
            false,
        ),
        (
            json!({SIDECARSET_CUSTOM_VERSION: ""}),
            json!({}),
            json!({}),
            json!({}),
            true,
        ),
        // No schema lets it pass.
        (
            json!({}),
            json!({"customVersion": "x"}),
            json!({}),
            json!({}),
            true,
        ),
    ] {
        let original = set(ALPHA, &labels, &alpha);
        let converted = to(BETA, &original);
        assert_eq!(converted["spec"], beta, "{original}");
        assert_eq!(
            converted["metadata"].get("labels").unwrap_or(&json!({})),
            &kept,
            "{original}"
        );
        assert_eq!(memory(&converted).is_some(), is_remembered, "{original}");
        assert_eq!(to(ALPHA, &converted), original);
    }
}

#[test]
fn v1beta1_fields_survive_conversion_to_v1alpha1() {
    for (labels, beta, kept, alpha, is_remembered) in [
        (
            json!({}),
            json!({"namespaceSelector": of("a")}),
            json!({}),
            json!({"namespaceSelector": of("a")}),
            false,
        ),
        (
            json!({}),
            json!({"customVersion": "v1"}),
            json!({SIDECARSET_CUSTOM_VERSION: "v1"}),
            json!({}),
            false,
        ),
        (
            json!({}),
            json!({"customVersion": ""}),
            json!({}),
            json!({}),
            true,
        ),
        // An object with it as a label could not be read.
        (
            json!({}),
            json!({"customVersion": "no label"}),
            json!({}),
            json!({}),
            true,
        ),
        // In v1beta1 the label means nothing.
        (
            json!({SIDECARSET_CUSTOM_VERSION: "v1"}),
            json!({}),
            json!({}),
            json!({}),
            true,
        ),
        (
            json!({SIDECARSET_CUSTOM_VERSION: "v1"}),
            json!({"customVersion": "v2"}),
            json!({SIDECARSET_CUSTOM_VERSION: "v2"}),
            json!({}),
            true,
        ),
        // No schema lets it pass.
        (
            json!({}),
            json!({"namespace": "a"}),
            json!({}),
            json!({}),
            true,
        ),
    ] {
        let original = set(BETA, &labels, &beta);
        let converted = to(ALPHA, &original);
        assert_eq!(converted["spec"], alpha, "{original}");
        assert_eq!(
            converted["metadata"].get("labels").unwrap_or(&json!({})),
            &kept,
            "{original}"
        );
        assert_eq!(memory(&converted).is_some(), is_remembered, "{original}");
        assert_eq!(to(BETA, &converted), original);
    }
}

#[test]
fn edited_selector_is_not_undone_by_its_namespace() {
    for alpha in [
        json!({"namespace": "a"}),
        json!({"namespace": "a", "namespaceSelector": of("a")}),
    ] {
        let converted = to(BETA, &set(ALPHA, &json!({}), &alpha));
        let edit = json!({"matchLabels": {"team": "b"}});
        let edited = to(
            ALPHA,
            &with(converted.clone(), "/spec/namespaceSelector", edit.clone()),
        );
        assert_eq!(
            edited["spec"],
            json!({"namespaceSelector": edit}),
            "{alpha}"
        );
        let back = to(BETA, &edited);
        assert_eq!(
            (&back["spec"], memory(&back)),
            (&json!({"namespaceSelector": edit}), None),
            "{alpha}"
        );

        let mut removed = converted;
        removed["spec"] = json!({});
        assert_eq!(to(ALPHA, &removed)["spec"], json!({}), "{alpha}");
    }
}

#[test]
fn another_edit_leaves_the_namespace() {
    let converted = to(
        BETA,
        &set(
            ALPHA,
            &json!({SIDECARSET_CUSTOM_VERSION: "v1"}),
            &json!({"namespace": "a"}),
        ),
    );
    let edited = to(ALPHA, &with(converted, "/spec/customVersion", json!("v2")));
    assert_eq!(edited["spec"], json!({"namespace": "a"}));
    assert_eq!(
        edited["metadata"]["labels"],
        json!({SIDECARSET_CUSTOM_VERSION: "v2"})
    );
}

#[test]
fn a_namespace_that_was_edited_counts() {
    let stored = to(BETA, &set(ALPHA, &json!({}), &json!({"namespace": "a"})));
    let edited = with(to(ALPHA, &stored), "/spec/namespace", json!("b"));
    assert_eq!(
        to(BETA, &edited)["spec"],
        json!({"namespaceSelector": of("b")})
    );
}

#[test]
fn a_memory_that_contradicts_the_selector_is_forged() {
    let forged = json!({"version": "v1alpha1", "places": [{"path": ["spec", "namespace"], "original": "kube-system"}]});
    let mut forger = set(BETA, &json!({}), &json!({"namespaceSelector": of("a")}));
    forger["metadata"]["annotations"] = json!({CONVERSION: forged.to_string()});
    assert_eq!(
        to(ALPHA, &forger),
        set(ALPHA, &json!({}), &json!({"namespaceSelector": of("a")}))
    );
}

/// SidecarSets of both versions that their types can read, including values that only the other
/// version has.
fn sidecarsets() -> BoxedStrategy<Value> {
    let selector = prop_oneof![
        Just(of("a")),
        Just(of("b")),
        Just(json!({})),
        Just(json!({"matchLabels": {NAMESPACE_NAME: "a", "x": "y"}})),
    ];
    let text = || one_of(&["", "a", "b", "no label"]).boxed();
    let unknown = || prop_oneof![text(), anything().boxed()].boxed();
    let spec = |namespace, custom_version| {
        object(vec![
            ("namespace", namespace),
            ("namespaceSelector", selector.clone().boxed()),
            ("customVersion", custom_version),
            ("containers", anything().boxed()),
        ])
    };
    let labels = || {
        object(vec![
            (SIDECARSET_CUSTOM_VERSION, one_of(&["", "a", "b"]).boxed()),
            ("mine", one_of(&["x"]).boxed()),
        ])
    };
    let alphas =
        (labels(), spec(text(), unknown())).prop_map(|(labels, spec)| set(ALPHA, &labels, &spec));
    let betas =
        (labels(), spec(unknown(), text())).prop_map(|(labels, spec)| set(BETA, &labels, &spec));
    prop_oneof![alphas, betas].boxed()
}

proptest! {
    #[test]
    fn nothing_is_lost_there_and_back(original in sidecarsets()) {
        let first = to(other(&original["apiVersion"]), &original);
        let second = to(original["apiVersion"].as_str().unwrap(), &first);
        prop_assert_eq!(&second, &original);
        prop_assert_eq!(to(other(&original["apiVersion"]), &second), first);
    }

    /// For any memory: an object that is edited in v1beta1 is the same after a way through
    /// v1alpha1.
    #[test]
    fn edits_in_v1beta1_count(stored in sidecarsets(), edit in sidecarsets()) {
        let (mut edited, edit) = (to(BETA, &stored), to(BETA, &edit));
        for field in ["namespaceSelector", "customVersion"] {
            match edit["spec"].get(field) {
                Some(value) => edited["spec"][field] = value.clone(),
                None => drop(edited["spec"].as_object_mut().unwrap().remove(field)),
            }
        }
        let back = to(BETA, &to(ALPHA, &edited));
        for field in ["namespaceSelector", "customVersion"] {
            prop_assert_eq!(back["spec"].get(field), edited["spec"].get(field));
        }
    }
}
