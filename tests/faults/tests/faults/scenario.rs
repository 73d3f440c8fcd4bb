//! What is done while something befalls the controller.

use crate::clone_set::Rollout;
use crate::images::Images;

/// A thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// With a CloneSet.
    Rollout(Rollout),
    /// With images on nodes.
    Images(Images),
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario::Rollout(rollout) => rollout.name(),
            Scenario::Images(images) => images.name(),
        }
    }

    /// No two have the same.
    pub(crate) fn number(self) -> usize {
        match self {
            Scenario::Rollout(rollout) => rollout as usize,
            Scenario::Images(images) => 20 + images as usize,
        }
    }

    /// The resources whose events matter to it.
    pub(crate) fn watched(self) -> Vec<&'static str> {
        match self {
            Scenario::Rollout(rollout) => rollout.watched(),
            Scenario::Images(images) => images.watched(),
        }
    }

    /// Whether a controller gets on that lives for one write only.
    pub(crate) fn gets_on_by_single_writes(self) -> bool {
        !matches!(self, Scenario::Rollout(rollout) if !rollout.gets_on_by_single_writes())
    }
}
