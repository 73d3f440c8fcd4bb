//! Names that only UnitedDeployments have.

/// Labels.
pub mod label {
    /// On a pod of a UnitedDeployment in reserve mode, `"true"`: it waits for a node, or is new in
    /// a subset with waiting pods, and does not count. `"false"` afterwards.
    pub const RESERVED_POD: &str = "apps.kruise.io/united-deployment-reserved-pod";
}

/// Types of conditions.
pub mod condition {
    /// On UnitedDeployments: whether each subset has its workload, and there is no other.
    pub const SUBSET_PROVISIONED: &str = "SubsetProvisioned";
    /// On UnitedDeployments: whether each subset's workload is as the spec says.
    pub const SUBSET_UPDATED: &str = "SubsetUpdated";
    /// On UnitedDeployments, True while the workload of a subset is blocked; its message is the
    /// workload's own.
    pub const SUBSET_FAILURE: &str = "SubsetFailure";
    /// On UnitedDeployments: whether all pods outside of the partitions have the template's
    /// revision.
    pub const UNITED_DEPLOYMENT_UPDATED: &str = "UnitedDeploymentUpdated";
    /// On subsets in the status of a UnitedDeployment: whether their nodes have capacity for new
    /// pods.
    pub const SCHEDULABLE: &str = "Schedulable";
}
