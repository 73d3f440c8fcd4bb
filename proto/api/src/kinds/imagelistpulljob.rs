//! ImageListPullJob.

use kube::CustomResourceExt;

use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1;
use crate::v1beta1::imagelistpulljob::patches;
use crate::validation;

/// ImageListPullJob.
pub const IMAGE_LIST_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImageListPullJob",
    plural: "imagelistpulljobs",
    read: read::<v1beta1::ImageListPullJob>,
    owns: &["imagepulljobs"],
    faults: validation::of_pull_job,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ImageListPullJob::crd],
    patches,
};
