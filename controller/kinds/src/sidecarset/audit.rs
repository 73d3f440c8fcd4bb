//! Which pods lack what a SidecarSet gives to pods that are created, and why.

use std::sync::Arc;

use berth_workload::pod::Pod;

use super::pods::Member;
use super::{Snapshot, on_pod, refused};

/// What a pod lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// The containers, though it was created while the SidecarSet was there: nobody was asked, or nobody answered.
    Missed,
    /// The containers, for they were refused when it was created.
    Refused,
    /// The containers, for it is older than the SidecarSet.
    Older,
    /// The latest containers, which no update in place can bring.
    NotUpgradable,
}

impl Lack {
    /// In words that follow the pod.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Missed => "was created while the SidecarSet selected it, and has none of its containers",
            Self::Refused => "was refused the containers of the SidecarSet when it was created, and has none of them",
            Self::Older => "is older than the SidecarSet, and has none of its containers",
            Self::NotUpgradable => {
                "differs from the SidecarSet in more than images, which no update in place can change"
            }
        }
    }
}

/// The pods that lack something.
pub(super) fn lacking<'a>(snapshot: &'a Snapshot, members: &[Member<'a>]) -> Vec<(&'a Arc<Pod>, Lack)> {
    let made = snapshot.set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let without = snapshot.pods.iter().filter(|pod| pod.is_active() && !on_pod::is_injected(pod, snapshot.name()));
    let without = without.map(|pod| {
        let lack = if pod.metadata.creation_timestamp < made {
            Lack::Older
        } else if refused::reason(pod, snapshot.name()).is_some() {
            Lack::Refused
        } else {
            Lack::Missed
        };
        (pod, lack)
    });
    let outdated = members.iter().filter(|member| !member.is_updated && !member.is_upgradable);
    without.chain(outdated.map(|member| (member.pod, Lack::NotUpgradable))).collect()
}
