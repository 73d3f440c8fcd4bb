//! For whose pods the pod webhook is called.

use tokio::sync::watch;

use crate::pods::{Added, Asks};

/// For whose pods the pod webhook is to be called, and for whose it is.
#[derive(Debug, Clone)]
pub struct PodWebhook {
    /// What the leader wants; `None` is nobody's wish, and nothing is written.
    pub wanted: watch::Sender<Option<Asks>>,
    /// What was written last, or found written, less what was about to be taken out since.
    pub written: watch::Receiver<Option<Asks>>,
    /// What others have added to the entries of SidecarSets; `None` before this replica has read them.
    pub added: watch::Receiver<Option<Added>>,
    /// Whether an apiserver calls this replica without the token that the configuration asks for.
    pub lacks_token: watch::Receiver<bool>,
}

impl PodWebhook {
    /// For whoever only looks: nobody asks for anything, and this was added.
    pub fn looked_at(added: Option<Added>) -> Self {
        let (wanted, written) = (watch::channel(None).0, watch::channel(None).1);
        Self {
            wanted,
            written,
            added: watch::channel(added).1,
            lacks_token: watch::channel(false).1,
        }
    }

    /// Is it called for pods of whom this is so, and will it be? What is not wanted any more may go at any moment.
    pub fn stands_before(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        let has = |asks: &Option<Asks>| asks.as_ref().is_some_and(&is_so);
        // In this order: what is written is narrowed while nobody can change what is wanted.
        has(&self.wanted.borrow()) && has(&self.written.borrow())
    }
}
