//! The result of each scenario, for any injected fault.

use super::{Daemon, FIRST, GUEST, SECOND, THIRD};
use crate::world::{ONE, TWO};

/// The result of a scenario.
pub(super) struct Expected {
    /// The nodes that have a pod, each with its image.
    pub(super) pods: &'static [(&'static str, &'static str)],
    /// The numbers and images of the revisions.
    pub(super) history: &'static [(i64, &'static str)],
    /// Pods that the controller makes and deletes.
    pub(super) makes: usize,
    pub(super) deletes: usize,
    /// Pods and revisions that it adopts.
    pub(super) adopts: (usize, usize),
    /// How often each pod's image changes.
    pub(super) changes: usize,
    /// The maximum number of pods on a node.
    pub(super) most: usize,
    /// At every moment each of these nodes has a pod that serves, except for at most `away` of
    /// them.
    pub(super) served: &'static [&'static str],
    pub(super) away: usize,
}

const BOTH: &[&str] = &[FIRST, SECOND];
const OLD: &[(&str, &str)] = &[(FIRST, ONE), (SECOND, ONE)];
const NEW: &[(&str, &str)] = &[(FIRST, TWO), (SECOND, TWO)];
/// Two nodes with the first image, without any change.
const REST: Expected = Expected {
    pods: OLD,
    history: &[(1, ONE)],
    makes: 0,
    deletes: 0,
    adopts: (0, 0),
    changes: 0,
    most: 1,
    served: BOTH,
    away: 0,
};
/// The same, and then both with the second image.
const UPDATED: Expected = Expected {
    pods: NEW,
    history: &[(1, ONE), (2, TWO)],
    ..REST
};

impl Daemon {
    /// The nodes that must have a pod at first.
    pub(super) fn nodes(self) -> &'static [&'static str] {
        match self {
            Daemon::InPlace => &[FIRST, SECOND, THIRD],
            Daemon::NodeReturned => &[FIRST, SECOND, GUEST],
            _ => BOTH,
        }
    }

    /// These nodes, and those that must have a pod in the end.
    pub(super) fn all_nodes(self) -> Vec<&'static str> {
        let later = self
            .expected()
            .pods
            .iter()
            .map(|(node, _)| *node)
            .filter(|node| !self.nodes().contains(node));
        self.nodes().iter().copied().chain(later).collect()
    }

    /// The number of nodes that keep the earlier image.
    pub(super) fn partition(self) -> usize {
        usize::from(matches!(self, Daemon::InPlace | Daemon::Adopted))
    }

    pub(super) fn expected(self) -> Expected {
        match self {
            Daemon::Created => Expected {
                makes: 2,
                away: 2,
                ..REST
            },
            Daemon::Joined => Expected {
                pods: &[(FIRST, ONE), (SECOND, ONE), (GUEST, ONE)],
                makes: 1,
                ..REST
            },
            Daemon::InPlace => Expected {
                pods: &[(FIRST, ONE), (SECOND, TWO), (THIRD, TWO)],
                changes: 1,
                served: &[FIRST, SECOND, THIRD],
                away: 1,
                ..UPDATED
            },
            Daemon::Replaced => Expected {
                makes: 2,
                deletes: 2,
                away: 1,
                ..UPDATED
            },
            Daemon::Surged => Expected {
                makes: 2,
                deletes: 2,
                most: 2,
                ..UPDATED
            },
            Daemon::Guarded => Expected {
                pods: &[(FIRST, ONE)],
                deletes: 1,
                served: &[FIRST],
                ..REST
            },
            Daemon::NodeReturned => Expected {
                pods: &[(FIRST, TWO), (SECOND, TWO), (GUEST, TWO)],
                makes: 4,
                deletes: 3,
                away: 1,
                ..UPDATED
            },
            Daemon::Adopted => Expected {
                pods: &[(FIRST, ONE), (SECOND, TWO)],
                adopts: (2, 2),
                ..UPDATED
            },
            Daemon::AdoptedNative => Expected {
                adopts: (2, 1),
                ..REST
            },
            Daemon::RolledBack => Expected {
                history: &[(3, TWO), (4, ONE)],
                changes: 2,
                away: 1,
                ..REST
            },
            Daemon::Failed => Expected {
                makes: 1,
                deletes: 1,
                served: &[FIRST],
                ..REST
            },
        }
    }

    /// Revisions that are created, renumbered and deleted.
    pub(super) fn revisions(self) -> [usize; 3] {
        match self {
            Daemon::Created
            | Daemon::InPlace
            | Daemon::Replaced
            | Daemon::Surged
            | Daemon::NodeReturned => [1, 0, 0],
            Daemon::RolledBack => [1, 1, 1],
            _ => [0, 0, 0],
        }
    }
}
