//! The result of each scenario.

use berth_e2e::limits::Limits;

use crate::clone_set::{REPLICAS, Rollout};
use crate::world::{ONE, TWO};

/// The result of a scenario, for any injected fault.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Pods in the end.
    pub(crate) replicas: usize,
    /// Pods that are created, beyond those that exist before.
    pub(crate) creates: usize,
    /// Pods that are deleted.
    pub(crate) deletes: usize,
    /// Claims that are created, and the claims in the end.
    pub(crate) claims: usize,
    /// ConfigMaps that are created.
    pub(crate) barriers: usize,
    /// Templates that the CloneSet has had.
    pub(crate) templates: usize,
    /// Revisions that are created, beyond those that exist before.
    pub(crate) revisions: usize,
    /// How often an image in a pod changes, at most.
    pub(crate) image_changes: usize,
    /// How many pods are still of the first template in the end.
    pub(crate) kept: usize,
    /// How often names are removed from the list of pods to delete.
    pub(crate) cleaned: usize,
    /// The image in the end, except of pods that keep theirs.
    pub(crate) image: &'static str,
    /// The minimum number of available pods at every instant.
    pub(crate) available: usize,
    /// The maximum number of pods at any instant.
    active: usize,
}

impl Rollout {
    pub(crate) fn expected(self) -> Expected {
        // An update in place of all pods.
        let update = Expected {
            replicas: REPLICAS,
            creates: 0,
            deletes: 0,
            claims: 0,
            barriers: 0,
            templates: 2,
            revisions: 1,
            image_changes: 1,
            kept: 0,
            cleaned: 0,
            image: TWO,
            available: REPLICAS - 1,
            active: REPLICAS,
        };
        let same_template = Expected {
            templates: 1,
            revisions: 0,
            image_changes: 0,
            image: ONE,
            ..update
        };
        let create = Expected {
            creates: REPLICAS,
            revisions: 1,
            available: 0,
            ..same_template
        };
        let recreate = Expected {
            creates: REPLICAS,
            deletes: REPLICAS,
            image_changes: 0,
            available: REPLICAS,
            active: REPLICAS + 1,
            ..update
        };
        match self {
            Rollout::Create => create,
            Rollout::InPlace | Rollout::Quick | Rollout::Hooks | Rollout::Budgeted => update,
            Rollout::Drained => Expected {
                replicas: 2,
                creates: 1,
                deletes: 1,
                available: 1,
                ..update
            },
            Rollout::Rollback => Expected {
                image_changes: 2,
                image: ONE,
                ..update
            },
            Rollout::Repaired => Expected {
                image_changes: 2,
                templates: 3,
                revisions: 2,
                ..update
            },
            Rollout::Recreate => recreate,
            Rollout::Claims => Expected {
                claims: REPLICAS,
                ..recreate
            },
            Rollout::Ordered => Expected {
                creates: REPLICAS,
                barriers: REPLICAS,
                revisions: 2,
                image_changes: 2,
                available: 0,
                ..update
            },
            Rollout::ScaleUp => Expected {
                replicas: 5,
                creates: 2,
                available: REPLICAS,
                active: 5,
                ..same_template
            },
            Rollout::ScaleDown => Expected {
                replicas: 1,
                deletes: 2,
                available: 1,
                ..same_template
            },
            Rollout::SpecifiedDelete => Expected {
                creates: 1,
                deletes: 1,
                ..same_template
            },
            Rollout::Guarded => Expected {
                replicas: 1,
                deletes: 2,
                ..create
            },
            Rollout::Partition => Expected { kept: 1, ..update },
            Rollout::Named => Expected {
                replicas: 2,
                deletes: 1,
                cleaned: 1,
                ..same_template
            },
        }
    }

    /// The limits at every instant, for pods with this label of the newest revision.
    pub(crate) fn limits(self, newest: &str) -> Limits {
        let Expected {
            available,
            active,
            kept,
            ..
        } = self.expected();
        Limits {
            available,
            active,
            kept: Some((newest.to_owned(), kept)),
            ..Limits::default()
        }
    }
}
