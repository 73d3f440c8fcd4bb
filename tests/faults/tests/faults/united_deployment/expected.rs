//! The result that each scenario must have under every fault.

use super::{FIRST, SECOND, THIRD, United};
use crate::world::{ONE, TWO};

pub(super) const CLONE_SETS: &str = "clonesets";
pub(super) const DEPLOYMENTS: &str = "deployments";
pub(super) const STATEFUL_SETS: &str = "statefulsets";

/// The result of a scenario.
pub(super) struct Expected {
    /// The resource of the subsets' workloads.
    pub(super) resource: &'static str,
    /// The subsets with their replicas.
    pub(super) shares: &'static [(&'static str, usize)],
    /// The image of all pods.
    pub(super) image: &'static str,
    /// Workloads that the controller creates.
    pub(super) makes: usize,
    /// CloneSets that the controller deletes.
    pub(super) deletes: usize,
    /// Changes of existing workloads.
    pub(super) patches: usize,
    /// Revisions of the UnitedDeployment that the controller creates.
    pub(super) revisions: usize,
    /// Pods that any controller creates.
    pub(super) pods: usize,
    /// Minimum number of pods that serve at every moment.
    pub(super) available: usize,
    /// How often the image of a pod changes.
    pub(super) changes: usize,
}

const BOTH: &[(&str, usize)] = &[(FIRST, 1), (SECOND, 1)];
/// Two pods that stay as they are.
const REST: Expected = Expected {
    resource: CLONE_SETS,
    shares: BOTH,
    image: ONE,
    makes: 0,
    deletes: 0,
    patches: 0,
    revisions: 0,
    pods: 0,
    available: 2,
    changes: 0,
};

impl United {
    pub(super) fn expected(self) -> Expected {
        match self {
            United::Created => Expected {
                shares: &[(FIRST, 1), (SECOND, 2)],
                makes: 2,
                revisions: 1,
                pods: 3,
                available: 0,
                ..REST
            },
            United::SubsetAdded => Expected {
                shares: &[(FIRST, 1), (SECOND, 2), (THIRD, 1)],
                makes: 1,
                patches: 1,
                pods: 1,
                available: 3,
                ..REST
            },
            United::SubsetRemoved => Expected {
                shares: &[(FIRST, 2), (SECOND, 2)],
                deletes: 1,
                patches: 2,
                pods: 2,
                ..REST
            },
            United::SubsetReturned => Expected {
                makes: 1,
                deletes: 1,
                pods: 1,
                available: 1,
                ..REST
            },
            United::KindChanged => Expected {
                resource: DEPLOYMENTS,
                makes: 2,
                deletes: 2,
                revisions: 1,
                pods: 2,
                ..REST
            },
            United::KindStateful => Expected {
                resource: STATEFUL_SETS,
                makes: 2,
                deletes: 2,
                revisions: 1,
                pods: 2,
                available: 0,
                ..REST
            },
            United::RolledOut => Expected {
                shares: &[(FIRST, 2), (SECOND, 1)],
                image: TWO,
                patches: 4,
                revisions: 1,
                available: 2,
                changes: 1,
                ..REST
            },
            // Pods: the replacement of the deleted one, one of the other subset, one of the scale.
            United::DomainLost => Expected {
                shares: &[(FIRST, 1), (SECOND, 2)],
                patches: 3,
                pods: 3,
                available: 1,
                ..REST
            },
            // Pods: the replacement of the deleted one, and its substitute.
            United::DomainReserved => Expected {
                shares: &[(FIRST, 2), (SECOND, 0)],
                patches: 4,
                pods: 2,
                available: 1,
                ..REST
            },
            United::Adopted => Expected { patches: 2, ..REST },
        }
    }

    /// The subsets with their replicas after the set-up.
    pub(super) fn shares_before(self) -> &'static [(&'static str, usize)] {
        match self {
            United::Created => &[],
            United::SubsetAdded => &[(FIRST, 2), (SECOND, 2)],
            United::SubsetRemoved => &[(FIRST, 1), (SECOND, 1), (THIRD, 2)],
            United::DomainLost => BOTH,
            _ if self.expected().patches == 0 => BOTH,
            _ => self.expected().shares,
        }
    }
}
