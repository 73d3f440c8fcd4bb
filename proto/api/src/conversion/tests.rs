mod containerrecreaterequest;
mod daemonset;
mod fields;
mod hostile;
mod podunavailablebudget;
mod sidecarset;
mod uniteddeployment;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::json::Json;
use crate::kinds::convert::ConversionError;
use crate::names::annotation::CONVERSION;

const ALPHA: &str = "apps.kruise.io/v1alpha1";
const BETA: &str = "apps.kruise.io/v1beta1";
const EXCLUDE: &str = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
const PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
const TIMEOUT: &str = "apps.kruise.io/image-predownload-timeout-seconds";

fn convert(object: Value, version: &str) -> Result<Value, ConversionError> {
    crate::kinds::convert::convert(&object.to_string(), version)
        .map(|text| serde_json::from_str(&text).unwrap())
}

fn to(version: &str, object: &Value) -> Value {
    convert(object.clone(), version).unwrap()
}

fn memory(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][CONVERSION].as_str()
}

fn without_memory(object: &Value) -> Value {
    let text = object.to_string();
    let mut object = Json::of(&text);
    super::memory::take(&mut object, "");
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A CloneSet as the apiserver stores it, with all defaults.
fn beta() -> Value {
    json!({
        "apiVersion": BETA, "kind": "CloneSet",
        "metadata": {"name": "demo", "namespace": "default", "uid": "u", "generation": 3},
        "spec": {
            "replicas": 5, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "demo"}},
            "template": {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "a", "image": "b", "new": {"x": [1, null]}}]}},
            "scaleStrategy": {"enablePVCReuse": false, "excludePreparingDelete": false, "podsToDelete": ["x"]},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
                "podUpdatePolicy": "InPlaceIfPossible", "partition": "30%", "maxUnavailable": 2, "maxSurge": 0, "paused": true,
                "scatterStrategy": [{"key": "a", "value": "b"}], "inPlaceUpdateStrategy": {"gracePeriodSeconds": 7},
            }},
        },
        "status": {"replicas": 5, "readyReplicas": 4, "conditions": [{"type": "FailedScale", "status": "True"}]},
    })
}

/// The same as v1alpha1 has it, with all defaults.
fn alpha() -> Value {
    let mut alpha = beta();
    alpha["apiVersion"] = json!(ALPHA);
    alpha["spec"]["scaleStrategy"] = json!({"disablePVCReuse": true, "podsToDelete": ["x"]});
    alpha["spec"]["updateStrategy"] = json!({
        "type": "InPlaceIfPossible", "partition": "30%", "maxUnavailable": 2, "maxSurge": 0, "paused": true,
        "scatterStrategy": [{"key": "a", "value": "b"}], "inPlaceUpdateStrategy": {"gracePeriodSeconds": 7},
    });
    alpha
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    object
}

#[test]
fn fields_of_both_versions_need_no_memory() {
    assert_eq!(to(ALPHA, &beta()), alpha());
    assert_eq!(to(BETA, &alpha()), beta());
    assert_eq!(to(BETA, &beta()), beta());
    assert_eq!(to(ALPHA, &alpha()), alpha());
}

#[test]
fn every_update_type_has_its_policy() {
    for type_ in ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"] {
        let alpha = with(alpha(), "/spec/updateStrategy/type", json!(type_));
        let converted = to(BETA, &alpha);
        assert_eq!(converted["spec"]["updateStrategy"]["type"], "RollingUpdate");
        assert_eq!(
            converted["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"],
            type_
        );
        assert_eq!(memory(&converted), None);
        assert_eq!(to(ALPHA, &converted), alpha);
    }
    let alpha = with(alpha(), "/spec/updateStrategy/type", json!("OnDelete"));
    let converted = to(BETA, &alpha);
    assert_eq!(converted["spec"]["updateStrategy"]["type"], "OnDelete");
    assert_eq!(
        converted["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"],
        2
    );
    assert_eq!(memory(&converted), None);
    assert_eq!(to(ALPHA, &converted), alpha);
}

#[test]
fn label_and_annotations_become_fields() {
    let mut alpha = alpha();
    alpha["metadata"]["labels"] = json!({EXCLUDE: "true", "mine": "x"});
    alpha["metadata"]["annotations"] = json!({PARALLELISM: "10%", TIMEOUT: "60", "mine": "y"});
    let converted = to(BETA, &alpha);
    assert_eq!(
        converted["spec"]["scaleStrategy"]["excludePreparingDelete"],
        true
    );
    assert_eq!(
        converted["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"],
        json!({"gracePeriodSeconds": 7, "imagePreDownloadParallelism": "10%", "imagePreDownloadTimeoutSeconds": 60})
    );
    assert_eq!(converted["metadata"]["labels"], json!({"mine": "x"}));
    assert_eq!(converted["metadata"]["annotations"], json!({"mine": "y"}));
    assert_eq!(to(ALPHA, &converted), alpha);
}

#[test]
fn annotations_that_no_field_can_have_stay() {
    for text in ["-1", "many", "", "5.5", "99999999999", "%", "-5%"] {
        let mut alpha = alpha();
        alpha["metadata"]["annotations"] = json!({PARALLELISM: text, TIMEOUT: "10%"});
        let converted = to(BETA, &alpha);
        assert_eq!(
            converted["metadata"]["annotations"],
            json!({PARALLELISM: text, TIMEOUT: "10%"})
        );
        assert_eq!(memory(&converted), None);
        assert_eq!(to(ALPHA, &converted), alpha);
    }
}

/// The label means nothing in v1beta1, so v1alpha1 must not see it as if it did.
#[test]
fn a_label_that_contradicts_the_field_does_not_count() {
    let mut beta = beta();
    beta["metadata"]["labels"] = json!({EXCLUDE: "true"});
    beta["metadata"]["annotations"] = json!({TIMEOUT: "60"});
    let converted = to(ALPHA, &beta);
    assert_eq!(converted["metadata"]["labels"], Value::Null);
    assert_eq!(
        converted["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        [CONVERSION]
    );
    assert_eq!(to(BETA, &converted), beta);
}

#[test]
fn a_policy_survives_on_delete_and_yields_to_an_edit() {
    let mut beta = beta();
    beta["spec"]["updateStrategy"]["type"] = json!("OnDelete");
    beta["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] = json!("InPlaceOnly");
    let converted = to(ALPHA, &beta);
    assert_eq!(converted["spec"]["updateStrategy"]["type"], "OnDelete");
    assert!(memory(&converted).unwrap().contains("InPlaceOnly"));
    assert_eq!(to(BETA, &converted), beta);

    let edited = with(converted, "/spec/updateStrategy/type", json!("ReCreate"));
    let edited = to(BETA, &edited);
    assert_eq!(edited["spec"]["updateStrategy"]["type"], "RollingUpdate");
    assert_eq!(
        edited["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"],
        "ReCreate"
    );
    assert_eq!(memory(&edited), None);
}

#[test]
fn edits_count_and_unedited_fields_come_back() {
    let mut beta = beta();
    beta["spec"]["scaleStrategy"] = json!({}); // Neither field is there: memory for both.
    let mut converted = to(ALPHA, &beta);
    assert!(memory(&converted).is_some());
    assert_eq!(to(BETA, &converted), beta);

    converted["spec"]["scaleStrategy"]["disablePVCReuse"] = json!(false);
    converted["spec"]["replicas"] = json!(9);
    let back = to(BETA, &converted);
    assert_eq!(
        back["spec"]["scaleStrategy"],
        json!({"enablePVCReuse": true})
    );
    assert_eq!(back["spec"]["replicas"], 9);
}

#[test]
fn modes_of_pull_secrets_follow_their_secrets() {
    let secret = |name: &str, mode: Option<&str>| match mode {
        Some(mode) => json!({"namespace": "a", "name": name, "mode": mode}),
        None => json!({"namespace": "a", "name": name}),
    };
    let beta = json!({
        "apiVersion": BETA, "kind": "NodeImage", "metadata": {"name": "node-1"},
        "spec": {"images": {"demo": {"pullSecrets": [secret("x", None), secret("y", Some("batch")), secret("z", Some("other"))], "tags": [{"tag": "1"}]}}},
        "status": {"desired": 1, "inspectedPods": [{"uid": "u"}]},
    });
    let mut alpha = to(ALPHA, &beta);
    assert_eq!(
        alpha["spec"]["images"]["demo"]["pullSecrets"],
        json!([secret("x", None), secret("y", None), secret("z", None)])
    );
    assert_eq!(alpha["status"], beta["status"]);
    assert_eq!(to(BETA, &alpha), beta);

    alpha["spec"]["images"]["demo"]["pullSecrets"] =
        json!([secret("new", None), secret("z", None)]);
    let back = to(BETA, &alpha);
    assert_eq!(
        back["spec"]["images"]["demo"]["pullSecrets"],
        json!([secret("new", None), secret("z", Some("other"))])
    );
}

#[test]
fn forged_memory_has_no_effect() {
    let forged = json!({"version": "v1beta1", "places": [
        {"path": ["spec", "replicas"], "mapped": 5, "original": 500},
        {"path": ["metadata", "name"], "mapped": "demo", "original": "other"},
        {"path": ["metadata", "labels", "mine"], "original": "other"},
        {"path": ["spec", "template", "spec", "containers", 0], "mapped": {"name": "a"}, "original": {"name": "b"}},
        {"path": [], "mapped": null, "original": 1},
    ]});
    let mut forger = alpha();
    forger["metadata"]["annotations"] = json!({CONVERSION: forged.to_string()});
    assert_eq!(to(BETA, &forger), beta());
    for unreadable in [
        "",
        "{}",
        "[1]",
        "{\"version\":\"v1beta1\",\"places\":[{\"path\":[-1]}]}",
    ] {
        forger["metadata"]["annotations"] = json!({CONVERSION: unreadable});
        assert_eq!(to(BETA, &forger), beta());
    }
}

#[test]
fn unknown_version_or_kind_is_refused_by_name() {
    let of = |api_version: &str, kind: &str, desired: &str| {
        convert(
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}),
            desired,
        )
        .unwrap_err()
    };
    let message = of("apps.kruise.io/v1", "CloneSet", BETA).to_string();
    assert_eq!(
        message,
        "CloneSet cannot be converted from apps.kruise.io/v1 to apps.kruise.io/v1beta1: only apps.kruise.io/v1alpha1 and apps.kruise.io/v1beta1 are known"
    );
    assert!(matches!(
        of(ALPHA, "CloneSet", "apps/v1"),
        ConversionError::UnknownVersion { .. }
    ));
    assert!(matches!(
        of(ALPHA, "WorkloadSpread", BETA),
        ConversionError::UnknownKind { .. }
    ));
    assert!(matches!(
        convert(json!([1]), BETA),
        Err(ConversionError::NoObject { .. })
    ));
    assert!(matches!(
        convert(json!({"kind": "CloneSet"}), BETA),
        Err(ConversionError::NoObject { .. })
    ));
}

/// Any JSON but null, which the apiserver drops.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z0-9%]{0,4}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn int_or_percent() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..100).prop_map(Value::from),
        (0..200).prop_map(|n| Value::from(format!("{n}%"))),
        "[a-z0-9%]{0,4}".prop_map(Value::from)
    ]
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    proptest::sample::select(values).prop_map(Value::from)
}

/// An object of some of these fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| {
            proptest::option::of(value).prop_map(move |value| (name.to_owned(), value))
        })
        .collect();
    fields
        .prop_map(|fields| {
            let present = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            Value::Object(present.collect::<Map<_, _>>())
        })
        .boxed()
}

fn metadata() -> BoxedStrategy<Value> {
    let labels = object(vec![
        (EXCLUDE, one_of(&["true", "false", ""]).boxed()),
        ("mine", one_of(&["x"]).boxed()),
    ]);
    let text = || {
        "([0-9]{1,3}%?|05|-1|[a-z]{0,2})"
            .prop_map(Value::from)
            .boxed()
    };
    let annotations = object(vec![
        (PARALLELISM, text()),
        (TIMEOUT, text()),
        (
            "apps.kruise.io/image-predownload-min-updated-ready-pods",
            text(),
        ),
        ("mine", text()),
    ]);
    // Kubernetes stores no empty labels or annotations.
    let filled = |map: BoxedStrategy<Value>| {
        map.prop_map(|map| {
            if map == json!({}) {
                json!({"mine": "x"})
            } else {
                map
            }
        })
        .boxed()
    };
    object(vec![
        ("labels", filled(labels)),
        ("annotations", filled(annotations)),
        ("finalizers", anything().boxed()),
    ])
    .prop_map(|mut metadata| {
        metadata["name"] = json!("demo");
        metadata
    })
    .boxed()
}

fn in_place() -> BoxedStrategy<Value> {
    object(vec![
        ("gracePeriodSeconds", (0..9).prop_map(Value::from).boxed()),
        ("imagePreDownloadParallelism", int_or_percent().boxed()),
        (
            "imagePreDownloadTimeoutSeconds",
            (0..9).prop_map(Value::from).boxed(),
        ),
        (
            "imagePreDownloadMinUpdatedReadyPods",
            (-1..9).prop_map(Value::from).boxed(),
        ),
    ])
}

fn rolling(policy: Option<&'static str>) -> Vec<(&'static str, BoxedStrategy<Value>)> {
    let mut fields = vec![
        ("partition", int_or_percent().boxed()),
        ("maxUnavailable", int_or_percent().boxed()),
        ("maxSurge", int_or_percent().boxed()),
        ("paused", any::<bool>().prop_map(Value::from).boxed()),
        ("priorityStrategy", anything().boxed()),
        ("scatterStrategy", anything().boxed()),
        ("inPlaceUpdateStrategy", in_place()),
    ];
    fields.extend(policy.map(|policy| {
        (
            policy,
            one_of(&["ReCreate", "InPlaceIfPossible", "InPlaceOnly"]).boxed(),
        )
    }));
    fields
}

fn cloneset(
    api_version: &'static str,
    scale: BoxedStrategy<Value>,
    update: BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    let spec = object(vec![
        ("replicas", (0..9).prop_map(Value::from).boxed()),
        ("selector", anything().boxed()),
        ("template", anything().boxed()),
        ("scaleStrategy", scale),
        ("updateStrategy", update),
    ]);
    (metadata(), spec, anything())
        .prop_map(move |(metadata, spec, status)| {
            json!({"apiVersion": api_version, "kind": "CloneSet", "metadata": metadata, "spec": spec, "status": status})
        })
        .boxed()
}

fn alphas() -> BoxedStrategy<Value> {
    let scale = object(vec![
        (
            "disablePVCReuse",
            any::<bool>().prop_map(Value::from).boxed(),
        ),
        ("podsToDelete", anything().boxed()),
        ("maxUnavailable", int_or_percent().boxed()),
    ]);
    let mut fields = rolling(None);
    fields.push((
        "type",
        one_of(&[
            "ReCreate",
            "InPlaceIfPossible",
            "InPlaceOnly",
            "OnDelete",
            "Else",
            "RollingUpdate",
        ])
        .boxed(),
    ));
    cloneset(ALPHA, scale, object(fields))
}

fn betas() -> BoxedStrategy<Value> {
    let scale = object(vec![
        (
            "enablePVCReuse",
            any::<bool>().prop_map(Value::from).boxed(),
        ),
        (
            "excludePreparingDelete",
            any::<bool>().prop_map(Value::from).boxed(),
        ),
        ("podsToDelete", anything().boxed()),
        ("maxUnavailable", int_or_percent().boxed()),
    ]);
    let update = object(vec![
        (
            "type",
            one_of(&["RollingUpdate", "OnDelete", "Else"]).boxed(),
        ),
        ("rollingUpdate", object(rolling(Some("podUpdatePolicy")))),
    ]);
    cloneset(BETA, scale, update)
}

fn nodeimages() -> BoxedStrategy<Value> {
    let secret = object(vec![
        ("name", one_of(&["a", "b"]).boxed()),
        ("mode", one_of(&["batch", "else"]).boxed()),
    ]);
    let image = object(vec![
        (
            "pullSecrets",
            proptest::collection::vec(secret, 0..4)
                .prop_map(Value::from)
                .boxed(),
        ),
        ("tags", anything().boxed()),
    ]);
    let images = object(vec![("nginx", image.clone()), ("a/b", image)]);
    (object(vec![("images", images), ("inspectPods", anything().boxed())]), anything())
        .prop_map(|(spec, status)| json!({"apiVersion": BETA, "kind": "NodeImage", "metadata": {"name": "n"}, "spec": spec, "status": status}))
        .boxed()
}

/// Objects whose fields have any shape at all.
fn junk() -> BoxedStrategy<Value> {
    let any_field = || {
        prop_oneof![
            anything(),
            object(vec![
                ("rollingUpdate", anything().boxed()),
                ("type", anything().boxed()),
                ("images", anything().boxed())
            ])
        ]
    };
    let spec = object(vec![
        ("scaleStrategy", anything().boxed()),
        ("updateStrategy", any_field().boxed()),
        ("images", anything().boxed()),
    ]);
    let kinds = proptest::sample::select(&["CloneSet", "NodeImage", "ImagePullJob"][..]);
    let versions = proptest::sample::select(&[ALPHA, BETA][..]);
    (kinds, versions, prop_oneof![spec, anything().boxed()], metadata())
        .prop_map(|(kind, version, spec, metadata)| json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}))
        .boxed()
}

fn other(version: &Value) -> &'static str {
    if version == ALPHA { BETA } else { ALPHA }
}

proptest! {
    #[test]
    fn nothing_is_lost_there_and_back(original in prop_oneof![alphas(), betas(), nodeimages()]) {
        let converted = to(other(&original["apiVersion"]), &original);
        prop_assert_eq!(to(original["apiVersion"].as_str().unwrap(), &converted), original);
    }

    /// And again, as an object does that clients of both versions read and write.
    #[test]
    fn nothing_is_lost_however_often(original in prop_oneof![alphas(), betas(), nodeimages()]) {
        let first = to(other(&original["apiVersion"]), &original);
        let second = to(original["apiVersion"].as_str().unwrap(), &first);
        prop_assert_eq!(to(other(&original["apiVersion"]), &second), first);
    }

    #[test]
    fn of_the_metadata_only_labels_and_annotations_change(original in prop_oneof![alphas(), betas(), nodeimages(), junk()]) {
        let strip = |object: &Value| {
            let mut metadata = object["metadata"].clone();
            metadata.as_object_mut().unwrap().retain(|key, _| key != "labels" && key != "annotations");
            metadata
        };
        let converted = to(other(&original["apiVersion"]), &original);
        prop_assert_eq!(strip(&converted), strip(&original));
        prop_assert_eq!(&converted["kind"], &original["kind"]);
        prop_assert_eq!(&converted["status"], &original["status"]);
    }

    /// A client of the other version replaces the strategies. The stored object then has the
    /// client's values, independent of the memory annotation. This test reads the stored object
    /// without the annotation, which would hide a mistake.
    #[test]
    fn edits_in_v1alpha1_count(mut stored in betas(), edit in alphas()) {
        if stored["spec"]["updateStrategy"]["type"] == "Else" {
            stored["spec"]["updateStrategy"]["type"] = json!("OnDelete");
        }
        let mut edited = to(ALPHA, &stored);
        edited["spec"]["updateStrategy"]["type"] = json!("ReCreate");
        for (field, fields) in [("updateStrategy", &["type", "partition", "maxSurge", "paused"][..]), ("scaleStrategy", &["disablePVCReuse", "maxUnavailable"][..])] {
            for name in fields {
                if let Some(value) = edit["spec"][field].get(name) {
                    edited["spec"][field][name] = value.clone();
                }
            }
        }
        let read = to(ALPHA, &without_memory(&to(BETA, &edited)));
        prop_assert_eq!(without_memory(&read)["spec"]["updateStrategy"]["type"].clone(), edited["spec"]["updateStrategy"]["type"].clone());
        for name in ["partition", "maxSurge", "paused"] {
            prop_assert_eq!(&read["spec"]["updateStrategy"][name], &edited["spec"]["updateStrategy"][name]);
        }
        prop_assert_eq!(&read["spec"]["scaleStrategy"], &edited["spec"]["scaleStrategy"]);
    }

    #[test]
    fn edits_in_v1beta1_count(stored in alphas(), edit in betas()) {
        let mut edited = to(BETA, &stored);
        edited["spec"]["updateStrategy"]["type"] = json!("RollingUpdate");
        edited["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] = json!("ReCreate");
        for name in ["podUpdatePolicy", "partition", "maxUnavailable"] {
            if let Some(value) = edit["spec"]["updateStrategy"]["rollingUpdate"].get(name) {
                edited["spec"]["updateStrategy"]["rollingUpdate"][name] = value.clone();
            }
        }
        for name in ["enablePVCReuse", "excludePreparingDelete"] {
            if let Some(value) = edit["spec"]["scaleStrategy"].get(name) {
                edited["spec"]["scaleStrategy"][name] = value.clone();
            }
        }
        let read = to(BETA, &without_memory(&to(ALPHA, &edited)));
        for name in ["enablePVCReuse", "excludePreparingDelete"] {
            let value = |object: &Value| object["spec"]["scaleStrategy"][name].as_bool().unwrap_or_default();
            prop_assert_eq!(value(&read), value(&edited));
        }
        for name in ["podUpdatePolicy", "partition", "maxUnavailable"] {
            prop_assert_eq!(&read["spec"]["updateStrategy"]["rollingUpdate"][name], &edited["spec"]["updateStrategy"]["rollingUpdate"][name]);
        }
    }
}
