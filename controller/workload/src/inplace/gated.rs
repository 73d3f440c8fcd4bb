//! Changes as the feature gates allow them.

use std::collections::BTreeMap;

use super::change::Change;
use super::restart::field;
use crate::gates::{Gate, Gates};
use crate::pod_patch::Env;

/// Variables of one pod that a change may restart containers for: with more, what the pod's node is asked and answers would
/// fill its NodeImage.
pub const MAX_VARIABLES: usize = 64;

/// The change as the feature gates allow it: without the gate, or without daemons, labels and annotations restart nothing.
/// One with more than [`MAX_VARIABLES`] variables takes a new pod.
pub fn variables(mut change: Change, gates: Gates) -> Change {
    if let Change::InPlace(patch) = &mut change
        && !(gates.has(Gate::InPlaceUpdateEnvFromMetadata) && gates.has(Gate::KruiseDaemon))
    {
        patch.env = Env::default();
    }
    if let Change::InPlace(patch) = &change
        && patch.env.0.values().map(BTreeMap::len).sum::<usize>() > MAX_VARIABLES
    {
        let what = format!(
            "template.spec.containers[].env (more than {MAX_VARIABLES} from labels and annotations)"
        );
        return Change::Recreate { fields: vec![what] };
    }
    change
}

/// The change as the feature gates allow it: where no daemons are, nobody stops a container, and only a new pod has new ones.
pub fn restarts(change: Change, gates: Gates) -> Change {
    match change {
        Change::InPlace(patch) if !patch.restarted.is_empty() && !gates.has(Gate::KruiseDaemon) => {
            Change::Recreate {
                fields: vec![field(
                    "only daemons restart containers, and feature gate KruiseDaemon is off",
                )],
            }
        }
        change => change,
    }
}
