//! ImagePullJob.

use kube::CustomResourceExt;

use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1;
use crate::v1beta1::imagepulljob::rules::patches;
use crate::validation;

/// ImagePullJob.
pub const IMAGE_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImagePullJob",
    plural: "imagepulljobs",
    read: read::<v1beta1::ImagePullJob>,
    faults: validation::of_pull_job,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ImagePullJob::crd],
    patches,
};
