//! Advanced StatefulSet.

use kube::CustomResourceExt;

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::{Schema, as_v1alpha1};
use crate::v1beta1;
use crate::v1beta1::statefulset::rules::of_version;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;

/// Advanced StatefulSet.
pub const STATEFUL_SET: Kind = Kind {
    group: GROUP,
    kind: "StatefulSet",
    plural: "statefulsets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::StatefulSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: Mapping::SAME,
    faults: validation::of_stateful_set,
    faults_of_change: validation::claim_changes,
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::StatefulSet::crd, || {
        as_v1alpha1(v1beta1::StatefulSet::crd())
    }],
    patches: of_version,
};
