//! For which pods the pod webhook is called.

use tokio::sync::watch;

use crate::pods::{Added, Asks};

/// For which pods the pod webhook is to be called, and for which it is.
#[derive(Debug, Clone)]
pub struct PodWebhook {
    /// The rules that the leader wants; `None` if this replica does not lead, and then nothing is
    /// written.
    pub wanted: watch::Sender<Option<Asks>>,
    /// The rules that were last written or found, without those that a write was about to remove
    /// since.
    pub written: watch::Receiver<Option<Asks>>,
    /// The additions of other writers to the entries of SidecarSets; `None` before this replica has
    /// read them.
    pub added: watch::Receiver<Option<Added>>,
    /// Whether an apiserver calls this replica without the token that the configuration asks for.
    pub lacks_token: watch::Receiver<bool>,
}

impl PodWebhook {
    /// For commands that only read: no rules are wanted, and this was added.
    pub fn looked_at(added: Option<Added>) -> Self {
        let (wanted, written) = (watch::channel(None).0, watch::channel(None).1);
        Self {
            wanted,
            written,
            added: watch::channel(added).1,
            lacks_token: watch::channel(false).1,
        }
    }

    /// Whether the webhook is called for pods with this property, and stays so. A rule that is not
    /// wanted any more may be removed at any moment.
    pub fn stands_before(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        let has = |asks: &Option<Asks>| asks.as_ref().is_some_and(&is_so);
        // In this order: a rule leaves `written` while `wanted` cannot change.
        has(&self.wanted.borrow()) && has(&self.written.borrow())
    }
}
