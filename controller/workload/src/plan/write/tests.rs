use super::*;
use crate::objects::resource::{CLONE_SETS, NODE_IMAGES};
use crate::plan::{Body, IfExists, PodPatch, Target};

#[test]
fn deed_reads_as_its_verb_and_the_kind_of_its_object() {
    let target = || Target {
        namespace: "ns".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
        resource_version: None,
    };
    let (body, owner) = (Body::from(&serde_json::json!({})), serde_json::json!({}));
    let table = [
        (
            Action::ValidateTemplate {
                namespace: "ns".to_owned(),
                template: body.clone(),
            },
            "ValidatePodTemplate",
        ),
        (
            Action::CreateRevision { body: body.clone() },
            "CreateControllerRevision",
        ),
        (
            Action::RenumberRevision {
                target: target(),
                revision: 1,
                annotations: Default::default(),
            },
            "RenumberControllerRevision",
        ),
        (
            Action::AdoptRevision {
                target: target(),
                owner: owner.clone(),
            },
            "AdoptControllerRevision",
        ),
        (Action::CreatePod { body }, "CreatePod"),
        (Action::DeletePod { target: target() }, "DeletePod"),
        (Action::EvictPod { target: target() }, "EvictPod"),
        (
            Action::ReleasePod {
                target: target(),
                owner: "u".to_owned(),
            },
            "ReleasePod",
        ),
        (
            Action::AdoptPod {
                target: target(),
                owner: owner.clone(),
            },
            "AdoptPod",
        ),
        (
            Action::PatchPod {
                target: target(),
                patch: PodPatch::default(),
            },
            "PatchPod",
        ),
        (
            Action::PatchPodStatus {
                target: target(),
                conditions: Vec::new(),
                patch: PodPatch::default(),
            },
            "PatchPodStatus",
        ),
        (
            Action::ResizePod {
                target: target(),
                resources: Default::default(),
            },
            "ResizePod",
        ),
        (
            Action::DeleteClaim { target: target() },
            "DeletePersistentVolumeClaim",
        ),
        (
            Action::OpenBarrier {
                pod: target(),
                keys: Vec::new(),
            },
            "PatchConfigMap",
        ),
        (
            Action::Create {
                resource: NODE_IMAGES,
                body: owner.clone(),
                if_exists: IfExists::IsFine,
            },
            "CreateNodeImage",
        ),
        (
            Action::Patch {
                resource: NODE_IMAGES,
                target: target(),
                patch: owner,
            },
            "PatchNodeImage",
        ),
        (
            Action::Delete {
                resource: NODE_IMAGES,
                target: target(),
            },
            "DeleteNodeImage",
        ),
        (
            Action::Confirm {
                resource: CLONE_SETS,
                target: target(),
            },
            "ConfirmCloneSet",
        ),
    ];
    for (action, text) in table {
        assert_eq!(action.write().to_string(), text);
    }
}
