//! A workload's template history, kept in `ControllerRevision` objects as OpenKruise keeps it.
//!
//! Two templates are the same if they have one canonical form ([`form::canonical`]), so that
//! different notations of clients are one revision. Templates that differ only in Kubernetes'
//! defaults are two revisions, and a running pod changes between them by its label only
//! ([`defaults`]). OpenKruise compares bytes, and must find the bytes of the stored template.

pub mod defaults;
pub mod form;
mod name;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use berth_api::text::JsonText;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::pod::Metadata;
use crate::plan::Target;

pub use name::{hash, revision_name, safe, short, suffix};

/// Pod and revision label: the revision's name, or its hash alone.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// Pod label: the revision's hash.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// Revision label: the revision's hash.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// How pods' labels name their revision, which differs by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PodLabels {
    /// Whether the revision label has the hash alone, and not the whole name.
    pub short: bool,
    /// Whether the label `pod-template-hash` has the hash, too.
    pub template_hash: bool,
    /// Whether revisions have their hash in the revision label, too.
    pub on_revisions: bool,
}

impl PodLabels {
    /// The labels of a pod of this revision.
    pub fn of(self, revision: &str) -> impl Iterator<Item = (&'static str, &str)> {
        let hash = self
            .template_hash
            .then(|| (TEMPLATE_HASH_LABEL, short(revision)));
        std::iter::once((
            REVISION_LABEL,
            if self.short {
                short(revision)
            } else {
                revision
            },
        ))
        .chain(hash)
    }
}

/// A `ControllerRevision`, with the fields that decisions read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Revision {
    /// Name, owner, labels.
    pub metadata: Metadata,
    /// Its place in the history: the highest number is the newest.
    #[serde(default)]
    pub revision: i64,
    /// `{"spec":{"template":{…,"$patch":"replace"}}}` as text, because a history has ten templates,
    /// and most are never parsed.
    #[serde(default)]
    pub data: JsonText,
}

impl Revision {
    /// The pod template in the revision, parsed from its text, without the patch directive next to
    /// the template's keys.
    pub fn template(&self) -> Value {
        template_in(self.data.value())
    }

    /// The revision as the target of an action.
    pub fn target(&self) -> Target {
        Target::from(&self.metadata)
    }
}

fn template_in(mut data: Value) -> Value {
    let mut template = data
        .pointer_mut("/spec/template")
        .map(Value::take)
        .unwrap_or_default();
    if let Some(map) = template.as_object_mut() {
        map.remove("$patch");
    }
    template
}

/// The place of the present template in the history.
#[derive(Debug, Clone, PartialEq)]
pub enum Recognised {
    /// It is the newest revision.
    Newest(Arc<Revision>),
    /// It is an older revision, which must get this number: a rollback.
    Older(Arc<Revision>, i64),
    /// It is new and gets this number.
    New(i64),
}

/// Sorts oldest first; ties, which a crash can leave, by creation time and name.
pub fn sort(revisions: &mut [Arc<Revision>]) {
    revisions.sort_by(|a, b| {
        (a.revision, a.metadata.creation_timestamp, &a.metadata.name).cmp(&(
            b.revision,
            b.metadata.creation_timestamp,
            &b.metadata.name,
        ))
    });
}

/// Finds the template in the history, which is sorted oldest first. It parses only revisions whose
/// text differs from the template's own.
pub fn recognise(template: &Value, revisions: &[Arc<Revision>]) -> Recognised {
    let next = revisions
        .last()
        .map_or(1, |newest| newest.revision.saturating_add(1));
    let data = data(template);
    // The server keeps the data as it was sent, so that most often the text of the newest revision
    // is equal.
    let text = form::text(&data);
    let wanted = template_in(data);
    let is = |revision: &Arc<Revision>| {
        revision.data.as_str() == text || form::canonical(&revision.template()) == wanted
    };
    revisions
        .iter()
        .rposition(is)
        .map_or(Recognised::New(next), |at| found(revisions, at))
}

/// Finds a revision that means the same and spells out defaults that the template omits. The
/// reverse does not count, because OpenKruise looks for the bytes of the stored template, and a
/// template that spells out more has other bytes.
pub fn recognise_meaning(template: &Value, revisions: &[Arc<Revision>]) -> Option<Recognised> {
    let wanted = form::canonical(template);
    let means_the_same = |revision: &Arc<Revision>| {
        let held = form::canonical(&revision.template());
        let (old, new) = defaults::dropped(&held, &wanted);
        old == new && spells_out(&held, &wanted)
    };
    revisions
        .iter()
        .rposition(means_the_same)
        .map(|at| found(revisions, at))
}

/// Whether `one` has every field that `other` has.
fn spells_out(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut fields = other.iter().filter(|(_, value)| !value.is_null());
            fields.all(|(key, value)| one.get(key).is_some_and(|own| spells_out(own, value)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| spells_out(one, other))
        }
        _ => true,
    }
}

/// The revision at a place in the history.
pub fn found(revisions: &[Arc<Revision>], at: usize) -> Recognised {
    match revisions.last() {
        Some(newest) if at + 1 < revisions.len() => {
            Recognised::Older(revisions[at].clone(), newest.revision.saturating_add(1))
        }
        _ => Recognised::Newest(revisions[at].clone()),
    }
}

/// The revision in a pod's label. The label may have the whole name or, from another setting, the
/// hash alone.
pub fn of_label<'a>(label: &str, revisions: &'a [Arc<Revision>]) -> Option<&'a Arc<Revision>> {
    revisions
        .iter()
        .find(|revision| same(label, &revision.metadata.name))
}

/// Whether two labels or names mean the same revision, by their hashes.
pub fn same(a: &str, b: &str) -> bool {
    !a.is_empty() && short(a) == short(b)
}

/// The `data` of a revision with this template. As text it is [`form::text`].
pub fn data(template: &Value) -> Value {
    kept(form::canonical(template))
}

/// The same, in the form of the newest revision, because its writer compares bytes and may get the
/// workload back.
pub fn data_like(newest: Option<&Revision>, template: &Value) -> Value {
    let canonical = form::canonical(template);
    let leaves_times_out = newest.map(Revision::template).and_then(|held| {
        Some(
            !held
                .get("metadata")?
                .as_object()?
                .contains_key("creationTimestamp"),
        )
    });
    kept(if leaves_times_out.unwrap_or_default() {
        form::undated(canonical)
    } else {
        canonical
    })
}

fn kept(mut template: Value) -> Value {
    if let Some(map) = template.as_object_mut() {
        map.insert("$patch".into(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

/// Revisions with the same template as a newer one, each with the newest of them, from a history
/// that is sorted oldest first. They are parsed one after the other.
pub fn duplicates(revisions: &[Arc<Revision>]) -> Vec<(&Arc<Revision>, &Arc<Revision>)> {
    let mut newest: BTreeMap<String, &Arc<Revision>> = BTreeMap::new();
    let mut duplicates = Vec::new();
    // Nothing is parsed if the history has one revision, as most have.
    for revision in revisions.iter().rev().filter(|_| revisions.len() > 1) {
        match newest.entry(form::canonical(&revision.template()).to_string()) {
            Entry::Occupied(kept) => duplicates.push((revision, *kept.get())),
            Entry::Vacant(free) => {
                free.insert(revision);
            }
        }
    }
    duplicates
}

/// Revisions to drop: the oldest unused ones, so that at most `limit` unused ones stay.
pub fn beyond_limit(
    revisions: &[Arc<Revision>],
    limit: i32,
    in_use: impl Fn(&str) -> bool,
) -> Vec<Arc<Revision>> {
    let unused: Vec<_> = revisions
        .iter()
        .filter(|revision| !in_use(&revision.metadata.name))
        .collect();
    let keep = usize::try_from(limit).unwrap_or(0);
    unused
        .iter()
        .take(unused.len().saturating_sub(keep))
        .map(|revision| (*revision).clone())
        .collect()
}

#[cfg(test)]
mod tests;
