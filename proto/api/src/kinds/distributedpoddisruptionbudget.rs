//! DistributedPodDisruptionBudget.

pub mod v1alpha1;
mod validation;

use kube::CustomResourceExt;

use crate::kinds::kind::{Kind, read};
use crate::names::POLICY_GROUP;
use crate::schema::Schema;
use crate::version::Version;
use crate::weight::Limits;

/// DistributedPodDisruptionBudget.
pub const DISTRIBUTED_POD_DISRUPTION_BUDGET: Kind = Kind {
    group: POLICY_GROUP,
    kind: "DistributedPodDisruptionBudget",
    plural: "distributedpoddisruptionbudgets",
    stored: Version::V1Alpha1,
    older: &[],
    read: read::<v1alpha1::DistributedPodDisruptionBudget>,
    limits: |_| Limits::of_budgets(),
    owns: &["poddisruptionbudgets"],
    faults: validation::faults,
    ..Kind::USUAL
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1alpha1::DistributedPodDisruptionBudget::crd],
    patches: |_| Vec::new(),
};
