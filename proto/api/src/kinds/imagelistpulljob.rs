//! ImageListPullJob.

use kube::CustomResourceExt;

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::{Schema, as_v1alpha1};
use crate::v1beta1;
use crate::v1beta1::imagelistpulljob::patches;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;

/// ImageListPullJob.
pub const IMAGE_LIST_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImageListPullJob",
    plural: "imagelistpulljobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ImageListPullJob>,
    limits: Limits::of_specs,
    template: None,
    owns: &["imagepulljobs"],
    mapping: Mapping::SAME,
    faults: validation::of_pull_job,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::ImageListPullJob::crd, || {
        as_v1alpha1(v1beta1::ImageListPullJob::crd())
    }],
    patches,
};
