//! The history of a UnitedDeployment: a ControllerRevision for each form of `spec.template`, in
//! OpenKruise's bytes.
//!
//! The name of a revision is in the template of every pod, so a takeover that changes it restarts
//! every pod. A revision is recognised by its meaning, and keeps its name regardless of the
//! spelling of its data.

mod form;
mod meaning;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::kinds::convert::convert;
use berth_api::names::annotation::CONVERSION;
use berth_workload::objects::pod::Owner;
use berth_workload::update::revision::{self, HASH_LABEL, Recognised, Revision};
use serde_json::{Map, Value, json};

const V1ALPHA1: &str = "apps.kruise.io/v1alpha1";
const V1BETA1: &str = "apps.kruise.io/v1beta1";
/// The template of a CloneSet, whose fields differ by version.
const CLONE_SET: &str = "cloneSetTemplate";
/// How many names are tried before a create fails because its name exists.
const MOST_COLLISIONS: i32 = 100;

/// The input of decisions about a UnitedDeployment's history.
#[derive(Debug, Clone, Copy)]
pub(super) struct History<'a> {
    /// Its namespace.
    pub(super) namespace: &'a str,
    /// Its name.
    pub(super) name: &'a str,
    /// `spec.template`, with one of the four templates.
    pub(super) template: &'a Value,
    /// Every revision that it controls, sorted oldest first ([`revision::sort`]).
    pub(super) revisions: &'a [Arc<Revision>],
    /// The revisions that the subsets' workloads name in `apps.kruise.io/controller-revision-hash`.
    pub(super) in_use: &'a BTreeSet<&'a str>,
    /// `status.collisionCount`.
    pub(super) collisions: i32,
}

impl History<'_> {
    /// Looks the template up in the history. Of several revisions that mean the same, a workload's
    /// comes first, because another name would restart its pods, then the newest.
    pub(super) fn recognise(&self) -> Recognised {
        let wanted = form::written(self.template);
        let text = revision::form::text(&kept(wanted.clone()));
        let is = |one: &Arc<Revision>| {
            (one.data.as_str() == text && !is_v1alpha1(one)) || meaning::same(&held(one), &wanted)
        };
        let used = |one: &Arc<Revision>| self.in_use.contains(&*one.metadata.name);
        let found = self.revisions.iter().rposition(|one| used(one) && is(one));
        match found.or_else(|| self.revisions.iter().rposition(is)) {
            Some(at) => revision::found(self.revisions, at),
            None => Recognised::New(
                self.revisions
                    .last()
                    .map_or(1, |newest| newest.revision.saturating_add(1)),
            ),
        }
    }

    /// The ControllerRevision of a new template, with this number. A CloneSet's template is written
    /// in the version of the newest revision, and the owner reference names that version, by which
    /// the data is read later.
    pub(super) fn new_revision(&self, mut owner: Value, number: i64) -> Value {
        let is_v1alpha1 = self.template.get(CLONE_SET).is_some_and(Value::is_object)
            && self
                .revisions
                .last()
                .is_some_and(|newest| is_v1alpha1(newest));
        let data = if is_v1alpha1 {
            owner
                .as_object_mut()
                .map(|owner| owner.insert("apiVersion".to_owned(), json!(V1ALPHA1)));
            data(&in_version(self.template.clone(), V1BETA1, V1ALPHA1))
        } else {
            data(self.template)
        };
        let is_taken = |name: &str| self.revisions.iter().any(|one| *one.metadata.name == *name);
        let mut hashes = (0..MOST_COLLISIONS)
            .map(|more| revision::hash(&data, self.collisions.wrapping_add(more)));
        let hash = hashes
            .find(|hash| !is_taken(&revision::revision_name(self.name, hash)))
            .unwrap_or_default();
        let mut labels = labels(self.template);
        labels.insert(HASH_LABEL.to_owned(), json!(hash));
        json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": revision::revision_name(self.name, &hash),
                "namespace": self.namespace,
                "labels": labels,
                "ownerReferences": [owner],
            },
            "revision": number,
            "data": data,
        })
    }

    /// Revisions to delete: the oldest beyond the limit. Revisions that workloads name, and those
    /// that are named here (the status' and the template's), stay and do not count.
    pub(super) fn beyond_limit(&self, limit: i32, live: &[&str]) -> Vec<Arc<Revision>> {
        let is_live = |name: &str| self.in_use.contains(name) || live.contains(&name);
        revision::beyond_limit(self.revisions, limit, is_live)
    }
}

/// The `data` of a revision for `spec.template`. As text it is [`revision::form::text`].
pub(super) fn data(template: &Value) -> Value {
    kept(form::written(template))
}

fn kept(mut written: Map<String, Value>) -> Value {
    written.insert("$patch".to_owned(), json!("replace"));
    json!({"spec": {"template": written}})
}

/// The labels of the template's workload. OpenKruise gives none to the revisions of a CloneSet's
/// template.
fn labels(template: &Value) -> Map<String, Value> {
    let templates = template
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| *field != CLONE_SET);
    let mut labels =
        templates.filter_map(|(_, template)| template.pointer("/metadata/labels")?.as_object());
    labels.next().cloned().unwrap_or_default()
}

/// The template that a revision holds, in the written form of v1beta1.
fn held(one: &Revision) -> Map<String, Value> {
    let template = one.template();
    form::written(&if is_v1alpha1(one) {
        in_version(template, V1ALPHA1, V1BETA1)
    } else {
        template
    })
}

/// OpenKruise 1.9 and before wrote the revision: its data has v1alpha1's form of a CloneSet.
fn is_v1alpha1(one: &Revision) -> bool {
    let is_it = |owner: &Owner| owner.controller && *owner.api_version == *V1ALPHA1;
    one.metadata.owner_references.iter().any(is_it)
}

/// The template with a CloneSet's part in another version. A part that cannot be converted stays.
fn in_version(mut template: Value, from: &str, to: &str) -> Value {
    let Some(clone_set) = template.get_mut(CLONE_SET).and_then(Value::as_object_mut) else {
        return template;
    };
    let mut object = clone_set.clone();
    object.insert("apiVersion".to_owned(), json!(from));
    object.insert("kind".to_owned(), json!("CloneSet"));
    // The conversion adds labels and annotations only to existing metadata.
    if !object.get("metadata").is_some_and(Value::is_object) {
        object.insert("metadata".to_owned(), json!({}));
    }
    let converted = convert(&Value::Object(object).to_string(), to).ok();
    let converted =
        converted.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text).ok());
    if let Some(mut object) = converted {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(annotations) =
            metadata.and_then(|metadata| metadata.get_mut("annotations")?.as_object_mut())
        {
            annotations.remove(CONVERSION);
        }
        object.retain(|field, _| ["metadata", "spec"].contains(&field.as_str()));
        *clone_set = object;
    }
    template
}
