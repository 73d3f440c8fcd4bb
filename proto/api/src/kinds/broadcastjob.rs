//! BroadcastJob.

use kube::CustomResourceExt;

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::{Schema, as_v1alpha1};
use crate::v1beta1;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;

/// BroadcastJob.
pub const BROADCAST_JOB: Kind = Kind {
    group: GROUP,
    kind: "BroadcastJob",
    plural: "broadcastjobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::BroadcastJob>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods"],
    mapping: Mapping::SAME,
    faults: validation::of_broadcast_job,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::BroadcastJob::crd, || {
        as_v1alpha1(v1beta1::BroadcastJob::crd())
    }],
    patches: |_| Vec::new(),
};
