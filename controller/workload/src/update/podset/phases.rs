//! The phases of pods' in-place updates, computed once for a decision.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::objects::pod::Pod;
use crate::update::inplace::steps::Phase;

/// The computed phases of pods under way, by name. Computing one parses the pod's record and reads
/// its node's whole report, and a decision needs it several times.
#[derive(Debug, Default)]
pub struct Phases(Mutex<HashMap<Box<str>, Arc<Phase>>>);

/// A clone is empty, because a decision with other objects must compute the phases again.
impl Clone for Phases {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Phases {
    /// The pod's phase. Computes it at the first call.
    pub(super) fn of(&self, pod: &Pod, judge: impl FnOnce() -> Phase) -> Arc<Phase> {
        let mut judged = self.0.lock();
        if let Some(phase) = judged.get(&pod.metadata.name) {
            return phase.clone();
        }
        let phase = Arc::new(judge());
        judged.insert(pod.metadata.name.clone(), phase.clone());
        phase
    }

    /// Frees the memory while the plan is executed.
    pub fn forget(&self) {
        *self.0.lock() = HashMap::new();
    }
}
