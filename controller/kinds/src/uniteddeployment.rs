//! UnitedDeployment: one workload for each domain, among which the replicas of one application are
//! divided.
//!
//! Each round reads the subsets ([`round`]): the workload of each, whether its nodes have capacity
//! ([`schedulability`]), and its number of replicas ([`division`]). The plan follows from the
//! differences of the workloads ([`decide`]).

mod adopt;
mod change;
mod condition;
mod decide;
pub mod division;
mod explain;
mod failure;
mod render;
mod revision;
mod round;
mod schedulability;
mod status;
mod stuck_pods;
mod subset_kind;
mod validate;

#[cfg(test)]
mod tests;

use berth_workload::objects::resource::Resource;
use std::sync::Arc;

use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_workload::objects::owner::Reference;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::untyped_workload::UntypedWorkload;
use berth_workload::plan::Refusal;
use berth_workload::update::podset::Unreadable;
use berth_workload::update::revision::{Revision, TEMPLATE_HASH_LABEL};

pub use decide::decide;
pub use explain::explain;
pub use round::Round;
pub use status::{is_urgent, status};
pub use subset_kind::SubsetKind;

/// UnitedDeployments.
pub const UNITED_DEPLOYMENTS: Resource = Resource::of(&berth_api::kinds::UNITED_DEPLOYMENT);

/// All that a decision about one UnitedDeployment reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The UnitedDeployment.
    pub united: Arc<UnitedDeployment>,
    /// The workloads that it or an earlier UnitedDeployment of its name controls, and those of its
    /// namespace that have a subset's name in their labels and no controller.
    pub workloads: Vec<SubsetWorkload>,
    /// The revisions that it controls, sorted oldest first.
    pub revisions: Vec<Arc<Revision>>,
    /// Revisions of its namespace that no object controls, and those of an earlier UnitedDeployment
    /// of its name that workloads have.
    pub orphans: Vec<Arc<Revision>>,
    /// The pods of its namespace that have a subset's name in their labels.
    pub pods: Vec<Arc<Pod>>,
    /// Workloads and revisions that name it as an owner and cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// A workload of one of the four kinds.
#[derive(Debug, Clone)]
pub struct SubsetWorkload {
    /// Its kind.
    pub kind: SubsetKind,
    /// The workload.
    pub object: Arc<UntypedWorkload>,
}

impl Snapshot {
    /// Namespace and name, for messages.
    pub fn name(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!(
            "{}/{}",
            part(&self.united.metadata.namespace),
            part(&self.united.metadata.name)
        )
    }

    /// Whether the controller of an object is an earlier UnitedDeployment of this name. Garbage
    /// collection is about to delete the object, or to remove the reference.
    fn is_of_predecessor(&self, controller: &Reference<'_>) -> bool {
        let Self { united, .. } = self;
        let is = |part: &Option<String>, wanted: &str| part.as_deref() == Some(wanted);
        UNITED_DEPLOYMENTS.owner_kind().is_of(controller)
            && is(&united.metadata.name, controller.name)
            && !is(&united.metadata.uid, controller.uid)
    }

    /// The refusal of a field of the spec.
    fn refusal(&self, field_and_problem: &str) -> Refusal {
        let message = format!("UnitedDeployment {}: {field_and_problem}", self.name());
        Refusal {
            reason: "InvalidSpec",
            message,
        }
    }
}

impl SubsetWorkload {
    /// Its name.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn is_going(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the pod is one of its own. A Deployment's pods belong to a ReplicaSet whose name has
    /// the Deployment's name and the pods' template hash.
    pub fn has_pod(&self, pod: &Pod) -> bool {
        let Some(owner) = pod.metadata.controller() else {
            return false;
        };
        if self.kind != SubsetKind::Deployment {
            return *owner.uid == *self.uid();
        }
        let hash = owner
            .name
            .strip_prefix(self.name())
            .and_then(|rest| rest.strip_prefix('-'));
        let own_hash = pod.metadata.label(TEMPLATE_HASH_LABEL).unwrap_or_default();
        *owner.kind == *"ReplicaSet" && hash == Some(own_hash)
    }
}

/// Kind and name of a workload, for people.
fn named(workload: &SubsetWorkload) -> String {
    format!("{} {}", workload.kind.title(), workload.name())
}
