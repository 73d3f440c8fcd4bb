//! Where pods are in their updates, judged once for a decision.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::objects::pod::Pod;
use crate::update::inplace::steps::Phase;

/// What was judged of pods under way, by name. To judge one, its record is read and all that its node reports is looked through, and
/// a decision asks several times.
#[derive(Debug, Default)]
pub struct Phases(Mutex<HashMap<Box<str>, Arc<Phase>>>);

/// What is decided on with other objects is judged anew.
impl Clone for Phases {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Phases {
    /// The pod's phase; judged now, unless it was before.
    pub(super) fn of(&self, pod: &Pod, judge: impl FnOnce() -> Phase) -> Arc<Phase> {
        let mut judged = self.0.lock();
        if let Some(phase) = judged.get(&pod.metadata.name) {
            return phase.clone();
        }
        let phase = Arc::new(judge());
        judged.insert(pod.metadata.name.clone(), phase.clone());
        phase
    }

    /// Takes no memory while the decision is carried out.
    pub fn forget(&self) {
        *self.0.lock() = HashMap::new();
    }
}
