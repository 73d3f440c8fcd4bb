//! Advanced StatefulSet.

use kube::CustomResourceExt;

use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1;
use crate::v1beta1::statefulset::rules::of_version;
use crate::validation;

/// Advanced StatefulSet.
pub const STATEFUL_SET: Kind = Kind {
    group: GROUP,
    kind: "StatefulSet",
    plural: "statefulsets",
    read: read::<v1beta1::StatefulSet>,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    faults: validation::of_stateful_set,
    faults_of_change: validation::claim_changes,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::StatefulSet::crd],
    patches: of_version,
};
