//! An action as a request to the apiserver.

use std::collections::BTreeMap;

use berth_api::name::InvalidName;
use berth_workload::objects::pod::{Condition, priority};
use berth_workload::plan::{Action, Body, Deed, IfExists, PodPatch, Target, Verb};
use berth_workload::update::inplace::resize::{Resize, Resizes};
use berth_workload::update::revision::form;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::object::{CONTROLLER_REVISIONS, Resource};

/// Of barriers alone: it begins with a test.
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// What kind of write it is, for what its answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of an object that belongs to the owner.
    Create,
    /// Of an object that may exist already, whoever made it.
    Ensure,
    /// Of nothing: the server only says whether it would.
    DryRun,
    /// Of nothing: the object is read, and must be the one that is meant.
    Confirm,
    Patch,
    Delete,
    /// A deletion that a disruption budget may refuse.
    Evict,
}

/// A write, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    pub(super) deed: Deed,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty for creates.
    pub(super) uid: String,
    pub(super) subresource: &'static str,
    pub(super) content: &'static str,
    /// What is sent; of an object that is sent whole, no more than its answer is judged by.
    pub(super) body: Value,
    /// The text of an object that is sent whole: its tree would take many times as much for as long as the server takes.
    whole: Option<Box<str>>,
}

/// What of a new object its answer is judged by.
#[derive(Deserialize, Serialize, Default)]
#[serde(default)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct HeadMetadata {
    namespace: String,
    name: String,
    owner_references: Value,
}

impl Write {
    pub(super) fn method(&self) -> Method {
        match self.kind {
            Kind::Create | Kind::Ensure | Kind::DryRun | Kind::Evict => Method::POST,
            Kind::Confirm => Method::GET,
            Kind::Patch => Method::PATCH,
            Kind::Delete => Method::DELETE,
        }
    }

    /// Path and query. The server gives the request up after `timeout_ms`: it must not carry it out when nobody counts on it.
    pub(super) fn uri(&self, manager: &str, timeout_ms: u128) -> Result<String, InvalidName> {
        let path = match self.kind {
            Kind::Create | Kind::Ensure | Kind::DryRun => {
                self.deed.resource.collection(&self.namespace)?
            }
            Kind::Confirm => return self.deed.resource.path(&self.namespace, &self.name),
            Kind::Patch | Kind::Delete | Kind::Evict => {
                self.deed.resource.path(&self.namespace, &self.name)?
            }
        };
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let rest = match self.kind {
            Kind::Delete => String::new(),
            Kind::DryRun => format!("&fieldManager={manager}&dryRun=All"),
            _ => format!("&fieldManager={manager}"),
        };
        Ok(format!(
            "{path}{slash}{}?timeout={timeout_ms}ms{rest}",
            self.subresource
        ))
    }

    /// The body as it is sent. The server keeps the data of a revision byte for byte, and OpenKruise compares bytes.
    pub(super) fn text(&self) -> String {
        match &self.whole {
            Some(text) if self.deed.resource == CONTROLLER_REVISIONS => form::escaped(text),
            Some(text) => text.to_string(),
            None if self.deed.resource == CONTROLLER_REVISIONS => form::text(&self.body),
            None => self.body.to_string(),
        }
    }

    pub(super) fn of(action: &Action) -> Self {
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

    /// A merge patch of a status subresource.
    pub(super) fn status(resource: &Resource, target: &Target, status: Value) -> Self {
        let write = Self::patch(
            Deed::of(Verb::PatchStatus, *resource),
            target,
            MERGE,
            json!({"status": status}),
        );
        Self {
            subresource: "status",
            ..write
        }
    }

    /// A JSON patch, for its test: the ConfigMap of another pod by the same name is left alone.
    fn open_barrier(deed: Deed, pod: &Target, keys: &[String]) -> Self {
        let test =
            json!({"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": pod.uid});
        // A ConfigMap without keys has no `data`, and none of ours has other keys than those.
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

    /// The server merges owners by their uid, and refuses a second one that manages the object.
    fn adopt(deed: Deed, target: &Target, owner: &Value) -> Self {
        Self::patch(
            deed,
            target,
            STRATEGIC,
            json!({"metadata": {"ownerReferences": [owner]}}),
        )
    }

    fn create_whole(deed: Deed, body: &Body) -> Self {
        let head: Head = body.read().unwrap_or_default();
        let write = Self::create(deed, Kind::Create, &json!(head));
        Self {
            whole: Some(body.text().into()),
            ..write
        }
    }

    fn create(deed: Deed, kind: Kind, body: &Value) -> Self {
        let text = |field: &str| {
            body["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let name = text("name");
        let name = if name.is_empty() {
            text("generateName")
        } else {
            name
        };
        Self {
            deed,
            kind,
            namespace: text("namespace"),
            name,
            uid: String::new(),
            subresource: "",
            content: JSON,
            body: body.clone(),
            whole: None,
        }
    }

    fn patch(deed: Deed, target: &Target, content: &'static str, mut body: Value) -> Self {
        if !body.is_object() {
            body = Value::Object(Map::new());
        }
        if !body["metadata"].is_object() {
            body["metadata"] = Value::Object(Map::new());
        }
        for (field, value) in preconditions(target) {
            body["metadata"][field] = value;
        }
        Self {
            kind: Kind::Patch,
            content,
            body,
            ..Self::on(deed, target)
        }
    }

    fn delete(deed: Deed, target: &Target) -> Self {
        let preconditions: Map<_, _> = preconditions(target).collect();
        let body =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        Self {
            kind: Kind::Delete,
            content: JSON,
            body,
            ..Self::on(deed, target)
        }
    }

    fn evict(deed: Deed, target: &Target) -> Self {
        let preconditions: Map<_, _> = preconditions(target).collect();
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": target.namespace, "name": target.name},
            "deleteOptions": {"preconditions": preconditions},
        });
        Self {
            kind: Kind::Evict,
            subresource: "eviction",
            content: JSON,
            body,
            ..Self::on(deed, target)
        }
    }

    fn on(deed: Deed, target: &Target) -> Self {
        Self {
            deed,
            kind: Kind::Patch,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            uid: target.uid.clone(),
            subresource: "",
            content: "",
            body: Value::Null,
            whole: None,
        }
    }
}

fn preconditions(target: &Target) -> impl Iterator<Item = (String, Value)> {
    let uid = (!target.uid.is_empty()).then(|| ("uid".to_owned(), json!(target.uid)));
    let version = target
        .resource_version
        .as_ref()
        .map(|version| ("resourceVersion".to_owned(), json!(version)));
    uid.into_iter().chain(version)
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

#[cfg(test)]
mod tests;
