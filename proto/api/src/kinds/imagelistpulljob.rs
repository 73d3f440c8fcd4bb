//! ImageListPullJob.

pub mod v1beta1;

use kube::CustomResourceExt;

pub use self::v1beta1 as v1alpha1;
use self::v1beta1::patches;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

/// ImageListPullJob.
pub const IMAGE_LIST_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImageListPullJob",
    plural: "imagelistpulljobs",
    read: read::<v1beta1::ImageListPullJob>,
    owns: &["imagepulljobs"],
    faults: crate::kinds::imagepulljob::validation::faults,
    spec: spec::<v1beta1::ImageListPullJob>,
    v1alpha1_alone: &[("1.8.4", &[])],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ImageListPullJob::crd],
    patches,
};
