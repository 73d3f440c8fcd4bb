//! Names that only BroadcastJobs have.

/// Labels.
pub mod label {
    /// On pods of a BroadcastJob: its name.
    pub const BROADCASTJOB_NAME: &str = "broadcastjob-name";
    /// On pods of a BroadcastJob: its uid.
    pub const BROADCASTJOB_CONTROLLER_UID: &str = "broadcastjob-controller-uid";
}

/// Annotations.
pub mod annotation {
    /// *Berth.* On a BroadcastJob: how long no pod is created after one has ended, such as `30s`.
    pub const WAIT_AFTER_NODE: &str = "apps.kruise.io/wait-after-node";
}

/// Types of conditions.
pub mod condition {
    /// On BroadcastJobs: the pods of all desired nodes have ended.
    pub const COMPLETE: &str = "Complete";
    /// On BroadcastJobs: a failed pod, or the deadline, has ended the job.
    pub const FAILED: &str = "Failed";
}
