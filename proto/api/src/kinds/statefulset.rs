//! Advanced StatefulSet.

pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;

pub use self::v1beta1 as v1alpha1;
use self::v1beta1::rules::of_version;
use crate::kinds::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;

/// Advanced StatefulSet.
pub const STATEFUL_SET: Kind = Kind {
    group: GROUP,
    kind: "StatefulSet",
    plural: "statefulsets",
    read: read::<v1beta1::StatefulSet>,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    faults: validation::faults,
    faults_of_change: validation::claim_changes,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::StatefulSet::crd],
    patches: of_version,
};
