//! The write of each action.

use berth_workload::objects::pod::{Condition, priority};
use berth_workload::plan::{Action, Body, IfExists, PodPatch, Target, Write};
use berth_workload::update::inplace::resize::{Resize, Resizes};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::{JSON_PATCH, Kind, MERGE, Request, STRATEGIC};

impl Request {
    pub(in crate::executor) fn of(action: &Action) -> Self {
        let write = action.write();
        match action {
            Action::ValidateTemplate {
                namespace,
                template,
            } => Self::validate_template(write, namespace, template),
            Action::CreateRevision { body }
            | Action::CreatePod { body }
            | Action::CreateClaim { body } => Self::create_whole(write, body),
            Action::DeleteRevision { target }
            | Action::DeletePod { target }
            | Action::DeleteClaim { target }
            | Action::Delete { target, .. } => Self::delete(write, target),
            Action::AdoptPod { target, owner } | Action::AdoptRevision { target, owner } => {
                Self::adopt(write, target, owner)
            }
            Action::PatchRevision { target, patch } | Action::Patch { target, patch, .. } => {
                Self::patch(write, target, MERGE, patch.clone())
            }
            Action::RenumberRevision {
                target,
                revision,
                annotations,
            } => Self::renumber(write, target, *revision, annotations),
            Action::EvictPod { target } => Self::evict(write, target),
            Action::ReleasePod { target, owner } => {
                let body =
                    json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}]}});
                Self::patch(write, target, STRATEGIC, body)
            }
            Action::PatchClaim { target, patch } => {
                Self::patch(write, target, STRATEGIC, patch.clone())
            }
            Action::PatchPod { target, patch } => Self::patch_pod(write, target, patch),
            Action::ResizePod { target, resources } => Self::resize_pod(write, target, resources),
            Action::PatchPodStatus {
                target,
                conditions,
                patch,
            } => Self::patch_pod_status(write, target, conditions, patch),
            Action::OpenBarrier { pod, keys } => Self::open_barrier(write, pod, keys),
            Action::Create {
                body, if_exists, ..
            } => {
                let kind = if *if_exists == IfExists::IsFine {
                    Kind::Ensure
                } else {
                    Kind::Create
                };
                Self::create(write, kind, body)
            }
            Action::Confirm { target, .. } => Self {
                kind: Kind::Confirm,
                ..Self::on(write, target)
            },
        }
    }

    fn renumber(
        write: Write,
        target: &Target,
        revision: i64,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let mut patch = json!({"revision": revision});
        if !annotations.is_empty() {
            patch["metadata"] = json!({"annotations": annotations});
        }
        Self::patch(write, target, MERGE, patch)
    }

    fn validate_template(write: Write, namespace: &str, template: &Body) -> Self {
        let metadata = json!({"generateName": "berth-validate-", "namespace": namespace});
        let (head, template) = (json!({"metadata": metadata}), template.text());
        let whole = format!(
            r#"{{"apiVersion":"v1","kind":"PodTemplate","metadata":{metadata},"template":{template}}}"#
        );
        let request = Self::create(write, Kind::DryRun, &head);
        Self {
            whole: Some(whole.into()),
            ..request
        }
    }

    fn patch_pod(write: Write, target: &Target, patch: &PodPatch) -> Self {
        let mut body = metadata(patch);
        for (list, images) in patch.images_by_list() {
            let images = images.iter();
            let containers: Vec<_> = images
                .map(|(name, image)| json!({"name": name, "image": image}))
                .collect();
            body["spec"][list] = json!(containers);
        }
        Self::patch(write, target, STRATEGIC, body)
    }

    fn resize_pod(write: Write, target: &Target, resources: &Resizes) -> Self {
        let mut lists: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, resize) in resources {
            let Resize {
                requests, limits, ..
            } = resize;
            let container =
                json!({"name": name, "resources": {"requests": requests, "limits": limits}});
            lists.entry(resize.list()).or_default().push(container);
        }
        let body = json!({"spec": lists});
        Self {
            subresource: "resize",
            ..Self::patch(write, target, STRATEGIC, body)
        }
    }

    fn patch_pod_status(
        write: Write,
        target: &Target,
        conditions: &[Condition],
        patch: &PodPatch,
    ) -> Self {
        let mut body = metadata(patch);
        if !conditions.is_empty() {
            body["status"] = json!({"conditions": conditions});
        }
        Self {
            subresource: "status",
            ..Self::patch(write, target, STRATEGIC, body)
        }
    }

    /// A JSON patch, because it can test the owner: another pod's ConfigMap of the same name stays
    /// unchanged.
    fn open_barrier(write: Write, pod: &Target, keys: &[String]) -> Self {
        let test =
            json!({"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": pod.uid});
        // A ConfigMap without keys has no `data`. Berth's ConfigMaps have no other keys.
        let data: Map<_, _> = keys
            .iter()
            .map(|key| (key.clone(), json!("true")))
            .collect();
        let keys = json!({"op": "add", "path": "/data", "value": data});
        Self {
            name: priority::barrier(&pod.name),
            content: JSON_PATCH,
            body: json!([test, keys]),
            ..Self::on(write, pod)
        }
    }

    /// The server merges owners by uid, and refuses a second controller of the object.
    fn adopt(write: Write, target: &Target, owner: &Value) -> Self {
        Self::patch(
            write,
            target,
            STRATEGIC,
            json!({"metadata": {"ownerReferences": [owner]}}),
        )
    }
}

fn metadata(patch: &PodPatch) -> Value {
    let mut metadata = Map::new();
    for (field, entries) in [
        ("labels", &patch.labels),
        ("annotations", &patch.annotations),
    ] {
        if !entries.is_empty() {
            metadata.insert(field.to_owned(), json!(entries));
        }
    }
    // Merged with those of the pod, as a set.
    if !patch.finalizers.is_empty() {
        metadata.insert("finalizers".to_owned(), json!(patch.finalizers));
    }
    json!({"metadata": metadata})
}
