//! The result of each scenario, for any injected fault.

use super::{FIRST, GUEST, Job, SECOND, THIRD};

/// The result of a scenario.
pub(super) struct Expected {
    /// Nodes that have a pod, each with its phase.
    pub(super) pods: &'static [(&'static str, &'static str)],
    /// The job's phase, and how many of its nodes have succeeded and failed; `None` if the job is
    /// deleted.
    pub(super) status: Option<(&'static str, u64, u64)>,
    /// Pods that the controller makes and deletes.
    pub(super) makes: usize,
    pub(super) deletes: usize,
    /// Writes to the job itself: a pause.
    pub(super) pauses: usize,
    /// The maximum number of pods that run at a time.
    pub(super) most: usize,
}

const SUCCEEDED: &str = "Succeeded";
/// The job ran on three nodes.
const RAN: Expected = Expected {
    pods: &[(FIRST, SUCCEEDED), (SECOND, SUCCEEDED), (THIRD, SUCCEEDED)],
    status: Some(("completed", 3, 0)),
    makes: 3,
    deletes: 0,
    pauses: 0,
    most: 3,
};

impl Job {
    /// The job's nodes.
    pub(super) fn nodes(self) -> [&'static str; 3] {
        [
            FIRST,
            SECOND,
            if self == Job::Joined { GUEST } else { THIRD },
        ]
    }

    pub(super) fn expected(self) -> Expected {
        match self {
            Job::Ran => RAN,
            Job::Narrow => Expected { most: 1, ..RAN },
            Job::Paused => Expected {
                pods: &[(FIRST, SUCCEEDED), (SECOND, "Failed"), (THIRD, SUCCEEDED)],
                status: Some(("completed", 2, 1)),
                pauses: 1,
                most: 1,
                ..RAN
            },
            Job::Restarted => Expected {
                pods: &[(FIRST, SUCCEEDED), (THIRD, SUCCEEDED)],
                status: Some(("completed", 2, 1)),
                deletes: 1,
                ..RAN
            },
            Job::FailedFast => Expected {
                pods: &[(FIRST, SUCCEEDED), (SECOND, "Failed")],
                status: Some(("failed", 1, 2)),
                deletes: 1,
                ..RAN
            },
            Job::OutOfTime => Expected {
                pods: &[],
                status: Some(("failed", 0, 3)),
                makes: 0,
                deletes: 3,
                ..RAN
            },
            Job::Expired => Expected {
                pods: &[],
                status: None,
                ..RAN
            },
            Job::Joined => Expected {
                pods: &[(FIRST, SUCCEEDED), (SECOND, SUCCEEDED), (GUEST, SUCCEEDED)],
                status: Some(("running", 3, 0)),
                makes: 1,
                ..RAN
            },
            Job::Lost => Expected { makes: 1, ..RAN },
            Job::Kept => Expected {
                pods: &[(SECOND, SUCCEEDED), (THIRD, SUCCEEDED)],
                makes: 1,
                most: 1,
                ..RAN
            },
        }
    }
}
