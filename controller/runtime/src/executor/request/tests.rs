use std::collections::BTreeMap;

use berth_workload::objects::pod::Condition;
use berth_workload::plan::{Action, Body, IfExists, PodPatch};
use berth_workload::update::inplace::resize::Resize;

use super::*;
use crate::object::{CLAIMS, CONFIG_MAPS, PODS};
use crate::object::{IMAGE_PULL_JOBS, NODE_IMAGES};

fn target(version: Option<&str>) -> Target {
    Target {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "u".into(),
        resource_version: version.map(Into::into),
    }
}

fn patch() -> PodPatch {
    PodPatch {
        labels: [
            ("l".to_owned(), Some("1".to_owned())),
            ("gone".to_owned(), None),
        ]
        .into(),
        annotations: [("n".to_owned(), Some("2".to_owned()))].into(),
        finalizers: Vec::new(),
        images: [("main".to_owned(), "x:2".to_owned())].into(),
        ..PodPatch::default()
    }
}

#[test]
fn pod_patch_is_strategic_with_preconditions() {
    let request = Request::of(&Action::PatchPod {
        target: target(Some("7")),
        patch: patch(),
    });
    assert_eq!(
        request.body,
        json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"l": "1", "gone": null}, "annotations": {"n": "2"}},
            "spec": {"containers": [{"name": "main", "image": "x:2"}]},
        })
    );
    assert_eq!(
        (request.method(), request.content),
        (Method::PATCH, STRATEGIC)
    );
    assert_eq!(
        request.uri("m", 900).unwrap(),
        "/api/v1/namespaces/ns/pods/a?timeout=900ms&fieldManager=m"
    );
}

#[test]
fn native_sidecar_images_go_to_init_containers() {
    let images = |name: &str| [(name.to_owned(), "x:2".to_owned())].into();
    let both = PodPatch {
        images: images("main"),
        native_images: images("mesh"),
        ..PodPatch::default()
    };
    let native = PodPatch {
        native_images: images("mesh"),
        ..PodPatch::default()
    };
    let (main, mesh) = (
        json!([{"name": "main", "image": "x:2"}]),
        json!([{"name": "mesh", "image": "x:2"}]),
    );
    for (patch, spec) in [
        (both, json!({"containers": main, "initContainers": mesh})),
        (native, json!({"initContainers": mesh})),
        (PodPatch::default(), Value::Null),
    ] {
        let request = Request::of(&Action::PatchPod {
            target: target(None),
            patch,
        });
        assert_eq!(request.body["spec"], spec);
    }
}

#[test]
fn a_status_patch_may_carry_labels() {
    let condition = Condition {
        type_: "InPlaceUpdateReady".into(),
        status: "False".into(),
        ..Condition::default()
    };
    let patch = PodPatch {
        images: Default::default(),
        annotations: Default::default(),
        ..patch()
    };
    let request = Request::of(&Action::PatchPodStatus {
        target: target(None),
        conditions: vec![condition],
        patch,
    });
    assert_eq!(
        request.body,
        json!({
            "metadata": {"uid": "u", "labels": {"l": "1", "gone": null}},
            // Empty words are written too: they take away those of before.
            "status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "False", "reason": "", "message": ""}]},
        })
    );
    assert_eq!(
        request.uri("m", 1).unwrap(),
        "/api/v1/namespaces/ns/pods/a/status?timeout=1ms&fieldManager=m"
    );
}

#[test]
fn a_resize_carries_resources_alone() {
    let cpu = |amount: &str| [("cpu".to_owned(), amount.to_owned())].into();
    let resize = Resize {
        requests: cpu("1"),
        limits: cpu("2"),
        restarts: true,
        sidecar: false,
    };
    let mesh = Resize {
        requests: cpu("3"),
        sidecar: true,
        ..Resize::default()
    };
    let resources = [("main".to_owned(), resize), ("mesh".to_owned(), mesh)].into();
    let request = Request::of(&Action::ResizePod {
        target: target(None),
        resources,
    });
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
    let sidecar = json!({"name": "mesh", "resources": {"requests": {"cpu": "3"}, "limits": {}}});
    let spec = json!({"containers": [{"name": "main", "resources": resources}], "initContainers": [sidecar]});
    assert_eq!(
        request.body,
        json!({"metadata": {"uid": "u"}, "spec": spec})
    );
    assert_eq!(
        (request.method(), request.content),
        (Method::PATCH, STRATEGIC)
    );
    assert_eq!(
        request.uri("m", 1).unwrap(),
        "/api/v1/namespaces/ns/pods/a/resize?timeout=1ms&fieldManager=m"
    );
}

#[test]
fn delete_has_preconditions_and_no_grace_period() {
    let request = Request::of(&Action::DeletePod {
        target: target(Some("7")),
    });
    let preconditions = json!({"uid": "u", "resourceVersion": "7"});
    assert_eq!(
        request.body,
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
    );
    assert_eq!(
        (request.method(), request.uid.as_str()),
        (Method::DELETE, "u")
    );
    let any_version = Request::of(&Action::DeletePod {
        target: target(None),
    });
    assert_eq!(any_version.body["preconditions"], json!({"uid": "u"}));
    assert_eq!(
        request.uri("m", 5).unwrap(),
        "/api/v1/namespaces/ns/pods/a?timeout=5ms"
    );
}

#[test]
fn eviction_has_the_uid_of_its_pod() {
    let request = Request::of(&Action::EvictPod {
        target: target(None),
    });
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "ns", "name": "a"},
        "deleteOptions": {"preconditions": {"uid": "u"}},
    });
    assert_eq!(
        (&request.body, request.method(), request.content),
        (&eviction, Method::POST, JSON)
    );
    assert_eq!(
        request.uri("m", 5).unwrap(),
        "/api/v1/namespaces/ns/pods/a/eviction?timeout=5ms&fieldManager=m"
    );
}

#[test]
fn a_template_is_validated_by_a_dry_run() {
    let template = json!({"spec": {"containers": []}});
    let request = Request::of(&Action::ValidateTemplate {
        namespace: "ns".into(),
        template: Body::from(&template),
    });
    let sent: Value = serde_json::from_str(&request.text()).unwrap();
    let metadata = json!({"generateName": "berth-validate-", "namespace": "ns"});
    let whole = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template});
    assert_eq!(sent, whole);
    assert_eq!(
        request.uri("m", 5).unwrap(),
        "/api/v1/namespaces/ns/podtemplates?timeout=5ms&fieldManager=m&dryRun=All"
    );
    assert_eq!(
        (request.method(), request.kind),
        (Method::POST, Kind::DryRun)
    );
}

#[test]
fn merge_patches_keep_their_own_metadata() {
    let body = json!({"metadata": {"finalizers": null}});
    let request = Request::of(&Action::Patch {
        resource: IMAGE_PULL_JOBS,
        target: target(Some("7")),
        patch: body,
    });
    assert_eq!(
        request.body,
        json!({"metadata": {"finalizers": null, "uid": "u", "resourceVersion": "7"}})
    );
    assert_eq!(request.content, MERGE);
    let cluster = Target {
        namespace: String::new(),
        ..target(Some("7"))
    };
    let request = Request::of(&Action::Patch {
        resource: NODE_IMAGES,
        target: cluster,
        patch: json!({"spec": {"images": {}}}),
    });
    assert_eq!(request.body["spec"], json!({"images": {}}));
    assert_eq!(
        request.uri("m", 5).unwrap(),
        "/apis/apps.kruise.io/v1beta1/nodeimages/a?timeout=5ms&fieldManager=m"
    );
}

#[test]
fn every_action_names_its_resource() {
    let body = json!({"metadata": {"namespace": "ns", "name": "a"}});
    let barrier = Request::of(&Action::OpenBarrier {
        pod: target(None),
        keys: vec!["p_1".to_owned()],
    });
    assert_eq!(
        (
            barrier.write.resource,
            barrier.name.as_str(),
            barrier.content
        ),
        (CONFIG_MAPS, "a-barrier", JSON_PATCH)
    );
    let keys = json!({"op": "add", "path": "/data", "value": {"p_1": "true"}});
    assert_eq!(barrier.body[1], keys);
    assert_eq!(barrier.body[0]["path"], "/metadata/ownerReferences/0/uid");
    let target = target(None);
    let patch = json!({});
    for (action, kind, resource) in [
        (
            Action::CreateRevision {
                body: Body::from(&body),
            },
            Kind::Create,
            CONTROLLER_REVISIONS,
        ),
        (
            Action::RenumberRevision {
                target: target.clone(),
                revision: 3,
                annotations: BTreeMap::new(),
            },
            Kind::Patch,
            CONTROLLER_REVISIONS,
        ),
        (
            Action::CreateClaim {
                body: Body::from(&body),
            },
            Kind::Create,
            CLAIMS,
        ),
        (
            Action::PatchClaim {
                target: target.clone(),
                patch: patch.clone(),
            },
            Kind::Patch,
            CLAIMS,
        ),
        (
            Action::DeleteClaim {
                target: target.clone(),
            },
            Kind::Delete,
            CLAIMS,
        ),
        (
            Action::DeleteRevision {
                target: target.clone(),
            },
            Kind::Delete,
            CONTROLLER_REVISIONS,
        ),
        (
            Action::CreatePod {
                body: Body::from(&body),
            },
            Kind::Create,
            PODS,
        ),
        (
            Action::Patch {
                resource: NODE_IMAGES,
                target: target.clone(),
                patch: patch.clone(),
            },
            Kind::Patch,
            NODE_IMAGES,
        ),
        (
            Action::Create {
                resource: CONFIG_MAPS,
                body: body.clone(),
                if_exists: IfExists::IsFine,
            },
            Kind::Ensure,
            CONFIG_MAPS,
        ),
        (
            Action::Create {
                resource: IMAGE_PULL_JOBS,
                body,
                if_exists: IfExists::IsOfSameOwner,
            },
            Kind::Create,
            IMAGE_PULL_JOBS,
        ),
        (
            Action::Delete {
                resource: NODE_IMAGES,
                target: target.clone(),
            },
            Kind::Delete,
            NODE_IMAGES,
        ),
        (
            Action::Patch {
                resource: IMAGE_PULL_JOBS,
                target: target.clone(),
                patch,
            },
            Kind::Patch,
            IMAGE_PULL_JOBS,
        ),
        (
            Action::Delete {
                resource: IMAGE_PULL_JOBS,
                target,
            },
            Kind::Delete,
            IMAGE_PULL_JOBS,
        ),
    ] {
        let request = Request::of(&action);
        assert_eq!(
            (request.kind, request.write.resource, request.name.as_str()),
            (kind, resource, "a"),
            "{action:?}"
        );
    }
}
