use berth_workload::objects::patch::merge::merge_patch;

use super::super::change::change;
use super::*;

/// The object as an apiserver has it after a merge patch.
fn patched(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

#[test]
fn unchanged_workload_needs_no_write() {
    for kind in SubsetKind::ALL {
        let source = Source {
            patch: Some(json!({"spec": {"priority": 1}})),
            ..Source::new(kind)
        };
        let mut object = source.object();
        // Defaults of the apiserver, an edit by hand, and a patch whose bytes differ.
        object["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
        object["spec"]["revisionHistoryLimit"] = json!(10);
        object["spec"]["minReadySeconds"] = json!(5);
        object["metadata"]["labels"]["foreign"] = json!("stays");
        object["metadata"]["annotations"]["apps.kruise.io/subset-patch"] =
            json!("{ \"spec\": {\"priority\":1} }");
        assert_eq!(change(&object, &source.workload(), None), None, "{kind:?}");
    }
}

#[test]
fn scale_and_partition_change_nothing_else() {
    use SubsetKind::*;
    for kind in SubsetKind::ALL {
        let mut source = Source::new(kind);
        let mut object = source.object();
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("edited by hand");
        source.size = Size {
            replicas: 5,
            partition: 2,
            reserved: 0,
        };
        let wanted = match kind {
            Deployment => json!({"spec": {"replicas": 5}}),
            StatefulSet | AdvancedStatefulSet | CloneSet => {
                json!({"spec": {"replicas": 5, "updateStrategy": {"rollingUpdate": {"partition": 2}}}})
            }
        };
        let patch = change(&object, &source.workload(), None).unwrap();
        assert_eq!(patch, wanted, "{kind:?}");
        assert_eq!(
            change(&patched(object, &patch), &source.workload(), None),
            None,
            "{kind:?}"
        );
    }
    let source = Source {
        size: Size {
            replicas: 1,
            partition: 0,
            reserved: 0,
        },
        ..Source::new(StatefulSet)
    };
    let mut object = source.object();
    object["spec"]
        .as_object_mut()
        .unwrap()
        .retain(|field, _| field != "replicas" && field != "updateStrategy");
    assert_eq!(
        change(&object, &source.workload(), None),
        None,
        "missing numbers are their defaults"
    );
}

#[test]
fn new_revision_replaces_the_spec() {
    for kind in SubsetKind::ALL {
        let old = Source::new(kind).spec("minReadySeconds", json!(5));
        let mut object = old.object();
        object["metadata"]["labels"]["foreign"] = json!("stays");
        object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("7");
        let mut new =
            Source::new(kind).pod(json!({"containers": [{"name": "web", "image": "web:2"}]}));
        new.revision = "web-2";
        new.metadata = json!({"labels": {"tier": "b"}});
        let object = patched(
            object.clone(),
            &change(&object, &new.workload(), Some(&old.metadata)).unwrap(),
        );
        let wanted = new.object();
        assert_eq!(object["spec"], wanted["spec"], "{kind:?}");
        let mut labels = wanted["metadata"]["labels"].clone();
        labels["foreign"] = json!("stays");
        assert_eq!(object["metadata"]["labels"], labels);
        let mut annotations = wanted["metadata"]["annotations"].clone();
        annotations["deployment.kubernetes.io/revision"] = json!("7");
        assert_eq!(object["metadata"]["annotations"], annotations);
        assert_eq!(change(&object, &new.workload(), Some(&new.metadata)), None);
    }
}

#[test]
fn keys_stay_without_the_older_revision() {
    let old = Source::new(SubsetKind::CloneSet);
    let new = Source {
        revision: "web-2",
        metadata: json!({}),
        ..old.clone()
    };
    let patch = change(&old.object(), &new.workload(), None).unwrap();
    assert_eq!(
        patch["metadata"],
        json!({"labels": {"apps.kruise.io/controller-revision-hash": "web-2"}})
    );
}

#[test]
fn new_patch_rolls_the_workload() {
    let old = Source::new(SubsetKind::CloneSet);
    let new = Source {
        patch: Some(json!({"spec": {"priority": 1}})),
        ..old.clone()
    };
    let patch = change(&old.object(), &new.workload(), Some(&old.metadata)).unwrap();
    assert_eq!(patch["spec"]["template"], json!({"spec": {"priority": 1}}));
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({"apps.kruise.io/subset-patch": "{\"spec\":{\"priority\":1}}"})
    );
}

#[test]
fn other_nodes_roll_the_workload() {
    let old = Source::new(SubsetKind::CloneSet);
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
    let term = NodeSelectorTerm {
        match_fields: serde_json::from_value(fields).unwrap(),
        ..NodeSelectorTerm::default()
    };
    let mut tolerations = vec![Toleration::default()];
    tolerations[0].key = Some("spot".to_owned());
    for new in [
        Source {
            term,
            ..old.clone()
        },
        Source {
            tolerations,
            ..old.clone()
        },
    ] {
        let mut object = old.object();
        let patch = change(&object, &new.workload(), Some(&old.metadata)).unwrap();
        let patched = patched(object.clone(), &patch);
        assert_eq!(patched["spec"], new.object()["spec"]);
        assert_eq!(change(&patched, &new.workload(), None), None);
        // OpenKruise keeps no hash, and renders terms otherwise.
        object["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove("apps.kruise.io/berth-subset-nodes");
        assert_eq!(change(&object, &new.workload(), Some(&old.metadata)), None);
    }
}

#[test]
fn template_that_differs_by_defaults_is_kept() {
    let old = Source::new(SubsetKind::CloneSet);
    let mut object = old.object();
    object["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
    let new = Source {
        patch: Some(json!({})),
        ..old
    };
    let patch = change(&object, &new.workload(), None);
    assert_eq!(
        patch,
        Some(json!({"metadata": {"annotations": {"apps.kruise.io/subset-patch": "{}"}}}))
    );
}

#[test]
fn foreign_owner_and_status_are_never_written() {
    let old = Source::new(SubsetKind::Deployment);
    let new = Source {
        revision: "web-2",
        ..old.clone()
    };
    let mut object = old.object();
    object["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    object["status"] = json!({"replicas": 3});
    let patch = change(&object, &new.workload(), None).unwrap();
    let written = patched(object.clone(), &patch);
    assert_eq!(
        (&written["metadata"]["ownerReferences"], &written["status"]),
        (&object["metadata"]["ownerReferences"], &object["status"])
    );
    assert_eq!(merge_patch(&written["spec"], &new.object()["spec"]), None);
}
