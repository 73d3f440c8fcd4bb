//! A workload's template history, kept in `ControllerRevision` objects as the peer keeps it.

mod name;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan::Target;
use crate::pod::Metadata;

pub use name::{hash, revision_name, short};

/// Pod and revision label: the revision's name, or its hash alone.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// Pod label: the revision's hash.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// Revision label: the revision's hash.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// A `ControllerRevision`, stripped to what decisions read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Revision {
    /// Name, owner, labels.
    pub metadata: Metadata,
    /// Its place in the history: the highest number is the newest.
    #[serde(default)]
    pub revision: i64,
    /// `{"spec":{"template":{…,"$patch":"replace"}}}`.
    #[serde(default)]
    pub data: Value,
}

impl Revision {
    /// The pod template that it holds; the patch directive beside the template's own keys is not part of it.
    pub fn template(&self) -> Value {
        let mut template = self.data["spec"]["template"].clone();
        if let Some(map) = template.as_object_mut() {
            map.remove("$patch");
        }
        template
    }

    fn holds(&self, template: &Value) -> bool {
        let held = &self.data["spec"]["template"];
        let own_keys = held.as_object().map_or(0, |map| map.keys().filter(|key| *key != "$patch").count());
        let keys = template.as_object();
        keys.is_some_and(|map| map.len() == own_keys && map.iter().all(|(key, value)| held.get(key) == Some(value)))
    }

    /// The revision as the object of an action.
    pub fn target(&self) -> Target {
        Target {
            namespace: self.metadata.namespace.to_string(),
            name: self.metadata.name.to_string(),
            uid: self.metadata.uid.to_string(),
            resource_version: None,
        }
    }
}

/// What the present template is in the history.
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

/// Looks the template up in the history, which is sorted oldest first.
pub fn recognise(template: &Value, revisions: &[Arc<Revision>]) -> Recognised {
    let next = revisions.last().map_or(1, |newest| newest.revision + 1);
    match revisions.iter().rposition(|revision| revision.holds(template)) {
        Some(at) if at + 1 == revisions.len() => Recognised::Newest(revisions[at].clone()),
        Some(at) => Recognised::Older(revisions[at].clone(), next),
        None => Recognised::New(next),
    }
}

/// The revision that a pod's label names. The label may hold the whole name or, from another setting, the hash alone.
pub fn of_label<'a>(label: &str, revisions: &'a [Arc<Revision>]) -> Option<&'a Arc<Revision>> {
    revisions.iter().find(|revision| same(label, &revision.metadata.name))
}

/// Do two labels or names mean the same revision? Their hashes are compared.
pub fn same(a: &str, b: &str) -> bool {
    !a.is_empty() && short(a) == short(b)
}

/// The `data` that a template is kept as.
pub fn data(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(map) = template.as_object_mut() {
        map.insert("$patch".into(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

/// Revisions to drop: the oldest of those that nothing uses, so that at most `limit` unused ones stay.
pub fn beyond_limit(revisions: &[Arc<Revision>], limit: i32, in_use: impl Fn(&str) -> bool) -> Vec<Arc<Revision>> {
    let unused: Vec<_> = revisions.iter().filter(|revision| !in_use(&revision.metadata.name)).collect();
    let keep = usize::try_from(limit).unwrap_or(0);
    unused.iter().take(unused.len().saturating_sub(keep)).map(|revision| (*revision).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64, template: &Value) -> Arc<Revision> {
        let metadata = Metadata { name: name.into(), ..Metadata::default() };
        Arc::new(Revision { metadata, revision: number, data: data(template) })
    }

    #[test]
    fn a_template_is_recognised_in_the_history() {
        let (a, b, c) = (json!({"spec": 1}), json!({"spec": 2}), json!({"spec": 2, "metadata": {}}));
        let history = [revision("w-a", 1, &a), revision("w-b", 2, &b)];
        assert_eq!(recognise(&b, &history), Recognised::Newest(history[1].clone()));
        assert_eq!(recognise(&a, &history), Recognised::Older(history[0].clone(), 3));
        assert_eq!(recognise(&c, &history), Recognised::New(3));
        assert_eq!(recognise(&a, &[]), Recognised::New(1));
        assert_eq!(history[0].template(), a);
    }

    #[test]
    fn labels_hold_the_name_or_the_hash() {
        let history = [revision("web-6d5f", 1, &json!({})), revision("web-77c8", 2, &json!({}))];
        for label in ["web-77c8", "77c8"] {
            assert_eq!(of_label(label, &history).map(|r| &*r.metadata.name), Some("web-77c8"));
        }
        assert!(of_label("", &history).is_none());
        assert!(!same("", ""));
    }

    #[test]
    fn the_oldest_unused_go_first() {
        let history: Vec<_> = (1..=5).map(|n| revision(&format!("w-{n}"), n, &json!({}))).collect();
        let names = |limit| {
            let dropped = beyond_limit(&history, limit, |name| name == "w-2" || name == "w-5");
            dropped.iter().map(|r| r.metadata.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["w-1", "w-3"]);
        assert_eq!(names(3), [""; 0]);
        assert_eq!(names(-1), ["w-1", "w-3", "w-4"]);
    }
}
