//! The kinds that there are: one table, and everything that is listed by kind comes from it or is tested against it.
//!
//! A kind comes in with a [`Kind`] and its line in [`TABLE`]. Its types, with the columns, defaults and rules of their fields,
//! are in the files of its versions. Then
//! `WRITE_CRDS=1 cargo test -p berth-api --test manifests` writes its definition and the chart's list of kinds, and the tests
//! name what else lacks the kind: the rights of the controller, its place among the controllers.

mod broadcastjob;
mod cloneset;
mod containerrecreaterequest;
mod daemonset;
mod distributedpoddisruptionbudget;
mod imagelistpulljob;
mod imagepulljob;
mod nodeimage;
mod persistentpodstate;
mod podunavailablebudget;
mod sidecarset;
mod statefulset;
mod uniteddeployment;

use serde_json::Value;

use crate::schema::Schema;
use crate::validation::Violation;

pub use self::broadcastjob::BROADCAST_JOB;
pub use self::cloneset::CLONE_SET;
pub use self::containerrecreaterequest::CONTAINER_RECREATE_REQUEST;
pub use self::daemonset::DAEMON_SET;
pub use self::distributedpoddisruptionbudget::DISTRIBUTED_POD_DISRUPTION_BUDGET;
pub use self::imagelistpulljob::IMAGE_LIST_PULL_JOB;
pub use self::imagepulljob::IMAGE_PULL_JOB;
pub use self::nodeimage::NODE_IMAGE;
pub use self::persistentpodstate::PERSISTENT_POD_STATE;
pub use self::podunavailablebudget::POD_UNAVAILABLE_BUDGET;
pub use self::sidecarset::SIDECAR_SET;
pub use self::statefulset::STATEFUL_SET;
pub use self::uniteddeployment::UNITED_DEPLOYMENT;
pub use crate::kind::Kind;
pub use crate::version::Version;

/// Each kind with what its definition is made of, in the order of their names, in which messages list them.
pub(crate) const TABLE: [(Kind, Schema); 13] = [
    (BROADCAST_JOB, broadcastjob::SCHEMA),
    (CLONE_SET, cloneset::SCHEMA),
    (CONTAINER_RECREATE_REQUEST, containerrecreaterequest::SCHEMA),
    (DAEMON_SET, daemonset::SCHEMA),
    (
        DISTRIBUTED_POD_DISRUPTION_BUDGET,
        distributedpoddisruptionbudget::SCHEMA,
    ),
    (IMAGE_LIST_PULL_JOB, imagelistpulljob::SCHEMA),
    (IMAGE_PULL_JOB, imagepulljob::SCHEMA),
    (NODE_IMAGE, nodeimage::SCHEMA),
    (PERSISTENT_POD_STATE, persistentpodstate::SCHEMA),
    (POD_UNAVAILABLE_BUDGET, podunavailablebudget::SCHEMA),
    (SIDECAR_SET, sidecarset::SCHEMA),
    (STATEFUL_SET, statefulset::SCHEMA),
    (UNITED_DEPLOYMENT, uniteddeployment::SCHEMA),
];

/// All kinds. The schemas stay behind: a program that holds this table would hold all that makes definitions, too, and only
/// tests make them.
pub static KINDS: [Kind; TABLE.len()] = {
    let mut kinds = [CLONE_SET; TABLE.len()];
    let mut at = 0;
    while at < kinds.len() {
        kinds[at] = TABLE[at].0;
        at += 1;
    }
    kinds
};

/// The kind of this name.
pub fn named(kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.kind == kind)
}

/// The kind with this name in paths.
pub fn of_plural(plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.plural == plural)
}

/// Kinds of which there are several versions.
pub fn converted() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.is_converted())
}

/// Whether an API group has kinds of ours.
pub fn has_group(group: &str) -> bool {
    KINDS.iter().any(|kind| kind.group == group)
}

/// The faults of an object of one of our kinds, of any version. Empty for other kinds.
pub fn violations(object: &Value) -> Vec<Violation> {
    kind_of(object)
        .map(|kind| (kind.faults)(object))
        .unwrap_or_default()
}

/// The faults that a change brings: an object may keep those it had.
pub fn new_violations(object: &Value, old: Option<&Value>) -> Vec<Violation> {
    let before = old.map(violations).unwrap_or_default();
    let mut found = violations(object);
    found.retain(|violation| !before.contains(violation));
    if let (Some(kind), Some(old)) = (kind_of(object), old) {
        found.extend((kind.faults_of_change)(object, old));
    }
    found
}

fn kind_of(object: &Value) -> Option<&'static Kind> {
    object.get("kind").and_then(Value::as_str).and_then(named)
}

#[cfg(test)]
mod tests;
