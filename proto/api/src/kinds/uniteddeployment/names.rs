//! Names that UnitedDeployments alone have.

/// Labels.
pub mod label {
    /// On a pod of a UnitedDeployment in reserve mode, `"true"`: it waits for a node, or is new in a subset whose pods do, and does
    /// not count. `"false"` afterwards.
    pub const RESERVED_POD: &str = "apps.kruise.io/united-deployment-reserved-pod";
}

/// Types of conditions.
pub mod condition {
    /// On UnitedDeployments: whether each subset has its workload, and no other has one.
    pub const SUBSET_PROVISIONED: &str = "SubsetProvisioned";
    /// On UnitedDeployments: whether each subset's workload is as the spec says.
    pub const SUBSET_UPDATED: &str = "SubsetUpdated";
    /// On UnitedDeployments, True while the workload of a subset is held back; its message has the workload's own words.
    pub const SUBSET_FAILURE: &str = "SubsetFailure";
    /// On UnitedDeployments: whether all pods are of the template's revision, as far as partitions allow.
    pub const UNITED_DEPLOYMENT_UPDATED: &str = "UnitedDeploymentUpdated";
    /// On subsets in the status of a UnitedDeployment: whether their nodes have room for new pods.
    pub const SCHEDULABLE: &str = "Schedulable";
}
