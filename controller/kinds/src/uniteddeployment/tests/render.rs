use std::collections::BTreeSet;

use berth_api::name::{is_dns_label, is_dns_subdomain};
use k8s_openapi::api::core::v1::NodeSelectorRequirement;

use super::super::render::{LONGEST_PATCH, name};
use super::*;

#[test]
fn workload_has_labels_and_selector_of_its_subset() {
    for kind in SubsetKind::ALL {
        let mut source = Source::new(kind)
            .spec("selector", json!({"matchLabels": {"other": "x"}}))
            .spec("replicas", json!(9));
        source.metadata["labels"]["app"] = json!("lies");
        let Workload {
            labels,
            annotations,
            spec,
            ..
        } = source.workload();
        let revision = "apps.kruise.io/controller-revision-hash";
        let subset = "apps.kruise.io/subset-name";
        assert_eq!(
            labels,
            owned(&[
                ("app", "web"),
                ("team", "a"),
                (subset, "arm"),
                (revision, "web-1")
            ])
        );
        let nodes = annotations["apps.kruise.io/berth-subset-nodes"].as_str();
        let patch = "apps.kruise.io/subset-patch";
        assert_eq!(
            annotations,
            owned(&[
                ("note", "n"),
                (patch, ""),
                ("apps.kruise.io/berth-subset-nodes", nodes)
            ])
        );
        assert_eq!(
            spec["selector"],
            json!({"matchLabels": {"app": "web", subset: "arm"}})
        );
        assert_eq!(
            spec["template"]["metadata"]["labels"],
            json!({"app": "web", subset: "arm", revision: "web-1"})
        );
        assert_eq!(spec["replicas"], 3);
    }
}

#[test]
fn selector_of_expressions_alone_gets_the_subset() {
    let mut source = Source::new(SubsetKind::CloneSet);
    source.selector =
        serde_json::from_value(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
            .unwrap();
    let selector = &source.workload().spec["selector"];
    assert_eq!(
        selector["matchLabels"],
        json!({"apps.kruise.io/subset-name": "arm"})
    );
    assert_eq!(
        selector["matchExpressions"],
        json!([{"key": "app", "operator": "Exists"}])
    );
}

#[test]
fn partition_goes_to_workloads_that_have_one() {
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 7, "maxUnavailable": 2}});
    let on_delete = json!({"type": "OnDelete", "rollingUpdate": {"partition": 7}});
    use SubsetKind::*;
    let table = [
        (
            StatefulSet,
            None,
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        ),
        (
            AdvancedStatefulSet,
            Some(json!({"type": ""})),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        ),
        (
            StatefulSet,
            Some(rolling.clone()),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 2}}),
        ),
        (
            AdvancedStatefulSet,
            Some(on_delete.clone()),
            json!({"type": "OnDelete"}),
        ),
        (StatefulSet, Some(on_delete), json!({"type": "OnDelete"})),
        (CloneSet, None, json!({"rollingUpdate": {"partition": 1}})),
        (
            CloneSet,
            Some(rolling),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 2}}),
        ),
        (Deployment, None, Value::Null),
    ];
    for (kind, strategy, wanted) in table {
        let mut source = Source::new(kind);
        source
            .spec
            .extend(strategy.map(|strategy| ("updateStrategy".to_owned(), strategy)));
        let spec = source.workload().spec;
        assert_eq!(
            spec.get("updateStrategy").cloned().unwrap_or_default(),
            wanted,
            "{kind:?}"
        );
    }
}

#[test]
fn node_term_is_added_to_each_required_term() {
    let requirement = |key: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
    };
    let json_of = |key: &str| json!({"key": key, "operator": "Exists"});
    let (expressions, fields) = (
        Some(vec![requirement("zone")]),
        Some(vec![requirement("metadata.name")]),
    );
    let required = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let table = [
        (
            json!(null),
            json!([{"matchExpressions": [json_of("zone")], "matchFields": [json_of("metadata.name")]}]),
        ),
        (
            required(
                json!([{"matchExpressions": [json_of("a")]}, {"matchFields": [json_of("b")]}]),
            ),
            json!([
                {"matchExpressions": [json_of("a"), json_of("zone")], "matchFields": [json_of("metadata.name")]},
                {"matchExpressions": [json_of("zone")], "matchFields": [json_of("b"), json_of("metadata.name")]},
            ]),
        ),
    ];
    for (affinity, terms) in table {
        let mut source = Source::new(SubsetKind::Deployment)
            .pod(json!({"containers": [], "affinity": affinity}));
        source.term = NodeSelectorTerm {
            match_expressions: expressions.clone(),
            match_fields: fields.clone(),
        };
        assert_eq!(
            source.workload().spec["template"]["spec"]["affinity"],
            required(terms)
        );
    }
    let mut fields_alone = Source::new(SubsetKind::Deployment);
    fields_alone.term.match_fields = fields;
    let affinity = &fields_alone.workload().spec["template"]["spec"]["affinity"];
    assert_eq!(
        *affinity,
        required(json!([{"matchFields": [json_of("metadata.name")]}]))
    );
    assert_eq!(
        Source::new(SubsetKind::Deployment).workload().spec["template"]["spec"].get("affinity"),
        None
    );
}

#[test]
fn patch_wins_over_template_and_subset() {
    let mut source = Source::new(SubsetKind::CloneSet).pod(json!({
        "containers": [{"name": "web", "image": "web:1"}], "tolerations": [{"key": "old"}],
    }));
    source.tolerations = vec![Toleration {
        key: Some("spot".into()),
        ..Default::default()
    }];
    let pod = |source: &Source| source.workload().spec["template"]["spec"].take();
    assert_eq!(
        pod(&source)["tolerations"],
        json!([{"key": "old"}, {"key": "spot"}])
    );
    source.patch = Some(
        json!({"spec": {"containers": [{"name": "web", "image": "web:<arm>"}], "tolerations": [{"key": "p"}]}}),
    );
    assert_eq!(
        pod(&source)["containers"],
        json!([{"name": "web", "image": "web:<arm>"}])
    );
    assert_eq!(pod(&source)["tolerations"], json!([{"key": "p"}]));
    // Go escapes what has a meaning in HTML.
    let text = r#"{"spec":{"containers":[{"image":"web:\u003carm\u003e","name":"web"}],"tolerations":[{"key":"p"}]}}"#;
    assert_eq!(
        source.workload().annotations["apps.kruise.io/subset-patch"],
        text
    );
}

#[test]
fn unknown_fields_reach_the_workload() {
    let source = Source::new(SubsetKind::CloneSet)
        .spec("future", json!({"a": [1]}))
        .pod(json!({"containers": [], "new": 1}));
    let spec = source.workload().spec;
    assert_eq!(
        (&spec["future"], &spec["template"]["spec"]["new"]),
        (&json!({"a": [1]}), &json!(1))
    );
}

#[test]
fn refused_template_or_patch_names_its_field() {
    let patched = |patch: Value| Source {
        patch: Some(patch),
        ..Source::new(SubsetKind::Deployment)
    };
    let mut with_term =
        Source::new(SubsetKind::Deployment).pod(json!({"affinity": {"nodeAffinity": 3}}));
    with_term.term.match_fields = Some(vec![NodeSelectorRequirement::default()]);
    let table = [
        (
            Source::new(SubsetKind::Deployment).spec("template", json!("x")),
            "spec.template: is no object",
            false,
        ),
        (
            Source::new(SubsetKind::CloneSet).spec("updateStrategy", json!([])),
            "spec.updateStrategy: is no object",
            false,
        ),
        (
            with_term,
            "spec.template.spec.affinity.nodeAffinity: is no object",
            false,
        ),
        (patched(json!(3)), "patch: is a number", true),
        (
            patched(json!({"spec": {"containers": [{}]}})),
            "patch.spec.containers[0]: has no \"name\"",
            true,
        ),
        (
            patched(json!({"metadata": {"labels": {"a": "x".repeat(LONGEST_PATCH)}}})),
            "patch: is 32800 bytes",
            true,
        ),
        (
            patched(json!({"metadata": {"labels": {"app": "other"}}})),
            "labels[app]: comes to \"other\"",
            true,
        ),
        (
            patched(json!({"metadata": {"labels": {"$patch": "replace"}}})),
            "subset-name]: comes to null",
            true,
        ),
        (
            patched(json!({"metadata": null})),
            "subset-name]: comes to null",
            true,
        ),
        (
            patched(
                json!({"metadata": {"labels": {"apps.kruise.io/controller-revision-hash": "forged"}}}),
            ),
            "controller-revision-hash]: comes to \"forged\"",
            true,
        ),
    ];
    for (source, says, of_subset) in table {
        let error = source.render().unwrap_err();
        assert!(
            error.to_string().contains(says) && error.of_subset == of_subset,
            "{error}"
        );
    }
}

#[test]
fn name_follows_from_uid_subset_and_kind() {
    let names: BTreeSet<String> = [("u1", "arm"), ("u2", "arm"), ("u1", "x86")]
        .into_iter()
        .flat_map(|(uid, subset)| SubsetKind::ALL.map(|kind| name("web", uid, subset, kind, 0)))
        .collect();
    assert_eq!(names.len(), 12, "{names:?}");
    // Written out, so that no release creates a second workload beside the first.
    assert_eq!(
        name("web", "u1", "arm", SubsetKind::CloneSet, 0),
        "web-arm-n7rdd"
    );
    assert_ne!(
        name("web", "u1", "arm", SubsetKind::CloneSet, 1),
        name("web", "u1", "arm", SubsetKind::CloneSet, 0)
    );
}

#[test]
fn name_is_valid_and_cut_for_every_kind() {
    let long = "x".repeat(63);
    let table = [
        ("web", "arm"),
        ("web.v1", "arm"),
        (&*long, &*long),
        ("web", "Not_DNS"),
        ("web", &*"ä".repeat(100)),
    ];
    for (united_deployment, subset) in table {
        for kind in SubsetKind::ALL {
            let name = name(united_deployment, "u", subset, kind, 0);
            let longest = if kind.is_stateful() { 52 } else { 63 };
            assert!(name.len() <= longest && is_dns_subdomain(&name), "{name}");
            assert!(!kind.is_stateful() || is_dns_label(&name), "{name}");
        }
    }
    assert!(name("web", "u", "Not_DNS", SubsetKind::CloneSet, 0).starts_with("web-"));
    assert_eq!(name(&long, "u", "a", SubsetKind::CloneSet, 0).len(), 63);
    assert_eq!(name(&long, "u", "a", SubsetKind::StatefulSet, 0).len(), 52);
}
