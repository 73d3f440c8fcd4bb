//! BroadcastJob.

pub mod names;
pub mod v1beta1;
mod validation;

use kube::CustomResourceExt;

pub use self::v1beta1 as v1alpha1;
use crate::kinds::kind::{Kind, read, spec};
use crate::names::GROUP;
use crate::schema::Schema;

/// BroadcastJob.
pub const BROADCAST_JOB: Kind = Kind {
    group: GROUP,
    kind: "BroadcastJob",
    plural: "broadcastjobs",
    read: read::<v1beta1::BroadcastJob>,
    template: Some("spec.template"),
    owns: &["pods"],
    faults: validation::faults,
    spec: spec::<v1beta1::BroadcastJob>,
    v1alpha1_alone: &[("1.8.4", &[])],
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::BroadcastJob::crd],
    patches: |_| Vec::new(),
};
