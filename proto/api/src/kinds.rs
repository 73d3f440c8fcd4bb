//! All kinds in one table. Every list by kind is made from the table or tested against it.
//!
//! To add a kind, add a folder and a line of `kinds!`. Messages list kinds in this order. Its
//! [`Kind`] is the registration; the files of its versions have its types, with the columns,
//! defaults and rules of their fields. Then `WRITE_CRDS=1 cargo test -p berth-api --test manifests`
//! writes its definition and the chart's list of kinds. The tests name the other places that lack
//! the kind: the rights of the controller, its place among the controllers.

pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod convert;
pub mod crd;
pub mod daemonset;
pub mod distributedpoddisruptionbudget;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod kind;
pub mod nodeimage;
pub mod persistentpodstate;
pub mod podunavailablebudget;
pub mod releases;
pub mod sidecarset;
pub mod statefulset;
pub mod uniteddeployment;

use serde_json::Value;

use crate::schema::Schema;
use crate::validation::Violation;

pub use self::kind::Kind;
pub use crate::version::Version;

/// Registers kinds, in the order of their names: folder, constant and type of each, and `v1beta1`
/// for kinds with that version.
macro_rules! kinds {
    ($($folder:ident $constant:ident $type:ident $($v1beta1:ident)?;)*) => {
        $(pub use self::$folder::$constant;)*

        /// Each kind with the input of its definition.
        pub(crate) const TABLE: &[(Kind, Schema)] = &[$(($constant, $folder::SCHEMA)),*];

        /// All kinds, without schemas. A program with the schemas would contain all code that makes
        /// definitions, and only tests make them.
        pub static KINDS: [Kind; TABLE.len()] = [$($constant),*];

        /// The stored version.
        pub mod v1beta1 {
            $($(
                pub use super::$folder::$v1beta1 as $folder;
                pub use super::$folder::$v1beta1::$type;
            )?)*
        }

        /// The version of older manifests.
        pub mod v1alpha1 {
            $(
                pub use super::$folder::v1alpha1 as $folder;
                pub use super::$folder::v1alpha1::$type;
            )*
        }
    };
}

kinds! {
    broadcastjob BROADCAST_JOB BroadcastJob v1beta1;
    cloneset CLONE_SET CloneSet v1beta1;
    containerrecreaterequest CONTAINER_RECREATE_REQUEST ContainerRecreateRequest v1beta1;
    daemonset DAEMON_SET DaemonSet v1beta1;
    distributedpoddisruptionbudget DISTRIBUTED_POD_DISRUPTION_BUDGET DistributedPodDisruptionBudget;
    imagelistpulljob IMAGE_LIST_PULL_JOB ImageListPullJob v1beta1;
    imagepulljob IMAGE_PULL_JOB ImagePullJob v1beta1;
    nodeimage NODE_IMAGE NodeImage v1beta1;
    persistentpodstate PERSISTENT_POD_STATE PersistentPodState v1beta1;
    podunavailablebudget POD_UNAVAILABLE_BUDGET PodUnavailableBudget v1beta1;
    sidecarset SIDECAR_SET SidecarSet v1beta1;
    statefulset STATEFUL_SET StatefulSet v1beta1;
    uniteddeployment UNITED_DEPLOYMENT UnitedDeployment v1beta1;
}

/// The kind of this name.
pub fn named(kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.kind == kind)
}

/// The kind with this name in paths.
pub fn of_plural(plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.plural == plural)
}

/// Kinds with several versions.
pub fn converted() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.is_converted())
}

/// Whether an API group has kinds of Berth.
pub fn has_group(group: &str) -> bool {
    KINDS.iter().any(|kind| kind.group == group)
}

/// The faults of an object of one of Berth's kinds, of any version. Empty for other kinds.
pub fn violations(object: &Value) -> Vec<Violation> {
    kind_of(object)
        .map(|kind| (kind.faults)(object))
        .unwrap_or_default()
}

/// The faults that a change adds; an object may keep its old faults.
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
