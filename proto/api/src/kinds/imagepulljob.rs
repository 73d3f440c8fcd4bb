//! ImagePullJob.

pub mod v1beta1;
pub(crate) mod validation;

use kube::CustomResourceExt;

pub use self::v1beta1 as v1alpha1;
use self::v1beta1::rules::patches;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

/// ImagePullJob.
pub const IMAGE_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImagePullJob",
    plural: "imagepulljobs",
    read: read::<v1beta1::ImagePullJob>,
    faults: validation::faults,
    spec: spec::<v1beta1::ImagePullJob>,
    v1alpha1_alone: &[("1.8.4", &[])],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ImagePullJob::crd],
    patches,
};
