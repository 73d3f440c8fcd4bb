//! BroadcastJob.

use kube::CustomResourceExt;

use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::v1beta1;
use crate::validation;

/// BroadcastJob.
pub const BROADCAST_JOB: Kind = Kind {
    group: GROUP,
    kind: "BroadcastJob",
    plural: "broadcastjobs",
    read: read::<v1beta1::BroadcastJob>,
    template: Some("spec.template"),
    owns: &["pods"],
    faults: validation::of_broadcast_job,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::BroadcastJob::crd],
    patches: |_| Vec::new(),
};
