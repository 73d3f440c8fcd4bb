//! The write of each action.

use berth_workload::objects::pod::{Condition, priority};
use berth_workload::plan::{Action, Body, Deed, IfExists, PodPatch, Target};
use berth_workload::update::inplace::resize::{Resize, Resizes};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::{JSON_PATCH, Kind, MERGE, STRATEGIC, Write};

impl Write {
    pub(in crate::executor) fn of(action: &Action) -> Self {
        let deed = action.deed();
        match action {
            Action::ValidateTemplate {
                namespace,
                template,
            } => Self::validate_template(deed, namespace, template),
            Action::CreateRevision { body }
            | Action::CreatePod { body }
            | Action::CreateClaim { body } => Self::create_whole(deed, body),
            Action::DeleteRevision { target }
            | Action::DeletePod { target }
            | Action::DeleteClaim { target }
            | Action::Delete { target, .. } => Self::delete(deed, target),
            Action::AdoptPod { target, owner } | Action::AdoptRevision { target, owner } => {
                Self::adopt(deed, target, owner)
            }
            Action::PatchRevision { target, patch } | Action::Patch { target, patch, .. } => {
                Self::patch(deed, target, MERGE, patch.clone())
            }
            Action::RenumberRevision {
                target,
                revision,
                annotations,
            } => Self::renumber(deed, target, *revision, annotations),
            Action::EvictPod { target } => Self::evict(deed, target),
            Action::ReleasePod { target, owner } => {
                let body =
                    json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}]}});
                Self::patch(deed, target, STRATEGIC, body)
            }
            Action::PatchClaim { target, patch } => {
                Self::patch(deed, target, STRATEGIC, patch.clone())
            }
            Action::PatchPod { target, patch } => Self::patch_pod(deed, target, patch),
            Action::ResizePod { target, resources } => Self::resize_pod(deed, target, resources),
            Action::PatchPodStatus {
                target,
                conditions,
                patch,
            } => Self::patch_pod_status(deed, target, conditions, patch),
            Action::OpenBarrier { pod, keys } => Self::open_barrier(deed, pod, keys),
            Action::Create {
                body, if_exists, ..
            } => {
                let kind = if *if_exists == IfExists::IsFine {
                    Kind::Ensure
                } else {
                    Kind::Create
                };
                Self::create(deed, kind, body)
            }
            Action::Confirm { target, .. } => Self {
                kind: Kind::Confirm,
                ..Self::on(deed, target)
            },
        }
    }

    fn renumber(
        deed: Deed,
        target: &Target,
        revision: i64,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let mut patch = json!({"revision": revision});
        if !annotations.is_empty() {
            patch["metadata"] = json!({"annotations": annotations});
        }
        Self::patch(deed, target, MERGE, patch)
    }

    fn validate_template(deed: Deed, namespace: &str, template: &Body) -> Self {
        let metadata = json!({"generateName": "berth-validate-", "namespace": namespace});
        let (head, template) = (json!({"metadata": metadata}), template.text());
        let whole = format!(
            r#"{{"apiVersion":"v1","kind":"PodTemplate","metadata":{metadata},"template":{template}}}"#
        );
        let write = Self::create(deed, Kind::DryRun, &head);
        Self {
            whole: Some(whole.into()),
            ..write
        }
    }

    fn patch_pod(deed: Deed, target: &Target, patch: &PodPatch) -> Self {
        let mut body = metadata(patch);
        for (list, images) in patch.images_by_list() {
            let images = images.iter();
            let containers: Vec<_> = images
                .map(|(name, image)| json!({"name": name, "image": image}))
                .collect();
            body["spec"][list] = json!(containers);
        }
        Self::patch(deed, target, STRATEGIC, body)
    }

    fn resize_pod(deed: Deed, target: &Target, resources: &Resizes) -> Self {
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
            ..Self::patch(deed, target, STRATEGIC, body)
        }
    }

    fn patch_pod_status(
        deed: Deed,
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
            ..Self::patch(deed, target, STRATEGIC, body)
        }
    }

    /// A JSON patch, because it can test the owner: another pod's ConfigMap of the same name stays
    /// unchanged.
    fn open_barrier(deed: Deed, pod: &Target, keys: &[String]) -> Self {
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
            ..Self::on(deed, pod)
        }
    }

    /// The server merges owners by uid, and refuses a second controller of the object.
    fn adopt(deed: Deed, target: &Target, owner: &Value) -> Self {
        Self::patch(
            deed,
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
