//! The turns of updates that the leader remembers. A new leader starts without them.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_kinds::sidecarset::Turns;
use berth_runtime::Object;
use parking_lot::{Mutex, MutexGuard};

use crate::stores::watched::Watched;

/// By name of a SidecarSet: its uid, and its turns.
#[derive(Debug, Default)]
pub(super) struct KnownTurns(Mutex<HashMap<String, (String, Arc<Turns>)>>);

impl KnownTurns {
    /// The turns of a SidecarSet.
    pub(super) fn of(&self, set: &Watched<SidecarSet>) -> Arc<Turns> {
        let known = self
            .lock()
            .get(set.name())
            .filter(|(uid, _)| uid == set.uid())
            .map(|(_, turns)| turns.clone());
        known.unwrap_or_default()
    }

    /// Notes the turns, and says whether another try of a pod failed: then the next turn comes at
    /// once.
    pub(super) fn note(&self, set: &Watched<SidecarSet>, turns: Turns) -> bool {
        let has_failed = turns.has_new_failures(&self.of(set));
        self.lock().insert(
            set.name().to_owned(),
            (set.uid().to_owned(), Arc::new(turns)),
        );
        has_failed
    }

    /// To be called when the SidecarSet is gone.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (String, Arc<Turns>)>> {
        self.0.lock()
    }
}
