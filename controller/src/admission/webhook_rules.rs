//! What each kind asks of the pod webhook, joined, and handed to its keeper as long as this replica leads.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use berth_runtime::CancellationToken;
use berth_runtime::election::Leadership;
use berth_webhook::PodWebhook;
use berth_webhook::pods::{Added, Asks, ReadinessGate};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// Changes that come close together are one write. The first of them does not wait: a pod may be created right behind what asks
/// for it.
const GATHER: Duration = Duration::from_millis(100);

/// A kind that asks for pods.
pub(crate) trait WebhookRule: Send + Sync {
    /// Adds what it asks for; `false` while that is not known yet.
    fn add_to(&self, asks: &mut Asks) -> bool;
}

/// Asks for all pods but those of these namespaces, for the readiness gate.
#[derive(Debug)]
pub(crate) struct AllGated(pub(crate) BTreeSet<String>);

impl WebhookRule for AllGated {
    fn add_to(&self, asks: &mut Asks) -> bool {
        asks.readiness_gate = ReadinessGate::of_all_but(self.0.clone());
        true
    }
}

/// Asks for all ContainerRecreateRequests.
#[derive(Debug)]
pub(crate) struct AllRequests;

impl WebhookRule for AllRequests {
    fn add_to(&self, asks: &mut Asks) -> bool {
        asks.requests = true;
        true
    }
}

type Hook = Box<dyn Fn() + Send + Sync>;

/// Those that ask, and where it is written.
#[derive(Default)]
pub(crate) struct WebhookRules {
    webhook: OnceLock<PodWebhook>,
    asking: Mutex<Vec<Arc<dyn WebhookRule>>>,
    changed: Notify,
    /// Told when what is asked for was written, or others have added to it.
    hooks: Mutex<Vec<Hook>>,
}

impl WebhookRules {
    /// One more that asks.
    pub(crate) fn ask(&self, asking: Arc<dyn WebhookRule>) {
        self.asking.lock().push(asking);
    }

    /// To be told when what is asked for was written, or others have added to it.
    pub(crate) fn on_written(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push(Box::new(hook));
    }

    /// Something else may be asked for now.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Where it is written to; to be called once.
    pub(crate) fn connect(&self, webhook: PodWebhook) {
        // A second one would be a mistake that the first call's value hides: there is one server.
        let _ = self.webhook.set(webhook);
    }

    /// Is it so of what was written last, and is it still asked for?
    pub(crate) fn has_written(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        self.webhook
            .get()
            .is_some_and(|webhook| webhook.stands_before(is_so))
    }

    /// Is it so of what is asked for?
    pub(crate) fn wants(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        self.webhook
            .get()
            .is_some_and(|webhook| webhook.wanted.borrow().as_ref().is_some_and(is_so))
    }

    /// Whether no other replica has the say in the entries, as far as this one knows: it leads and has written them, or nobody asks here,
    /// and none is to be written. A replica that follows is asked by what the leader wants, which may have other settings.
    pub(crate) fn are_its_own(&self) -> bool {
        self.nobody_asks() || self.has_written(|_| true)
    }

    fn nobody_asks(&self) -> bool {
        self.asking.lock().is_empty()
    }

    /// What others have added to the entries of SidecarSets; `None` before they were read. Where there is no webhook it is nothing.
    pub(crate) fn added(&self) -> Option<Added> {
        self.webhook.get().map_or_else(
            || Some(Added::default()),
            |webhook| webhook.added.borrow().clone(),
        )
    }

    /// Whether an apiserver calls without the token that it is to show.
    pub(crate) fn lacks_token(&self) -> bool {
        self.webhook
            .get()
            .is_some_and(|webhook| *webhook.lacks_token.borrow())
    }

    fn tell(&self) {
        self.hooks.lock().iter().for_each(|hook| hook());
    }

    /// What all ask for, once all know.
    fn all(&self) -> Option<Asks> {
        let asking = self.asking.lock();
        let mut asks = Asks::default();
        asking
            .iter()
            .all(|asking| asking.add_to(&mut asks))
            .then_some(asks)
    }

    /// Where it is told what is asked for. Where nobody asks, and there are entries of ours, that is nothing: what kinds asked for that
    /// are switched off is taken out.
    fn keeper(&self, has_entries: bool) -> Option<PodWebhook> {
        self.webhook
            .get()
            .filter(|_| has_entries || !self.nobody_asks())
            .cloned()
    }

    /// Tells the webhook's keeper, as long as this replica leads, and the hooks when it is written.
    pub(crate) async fn keep(
        self: Arc<Self>,
        has_entries: bool,
        leadership: Leadership,
        stop: CancellationToken,
    ) {
        let Some(webhook) = self.keeper(has_entries) else {
            return stop.cancelled().await;
        };
        let PodWebhook {
            wanted,
            mut written,
            mut added,
            mut lacks_token,
        } = webhook;
        loop {
            // A replica that never leads is asked to end all the same.
            tokio::select! {
                () = leadership.acquired() => {}
                () = stop.cancelled() => return,
            }
            let leading = async {
                let want = |wanted: &watch::Sender<Option<Asks>>,
                            written: &watch::Receiver<Option<Asks>>| {
                    let Some(asks) = self.all() else { return false };
                    let is_other = wanted
                        .send_if_modified(|old| old.replace(asks.clone()).as_ref() != Some(&asks));
                    // What came back before it was taken out is written by nobody, so nobody tells of it.
                    if is_other && *written.borrow() == Some(asks) {
                        self.tell();
                    }
                    is_other
                };
                loop {
                    want(&wanted, &written);
                    tokio::select! {
                        () = self.changed.notified() => {
                            // A status that changed asks for nothing else: what comes behind it need not wait.
                            if want(&wanted, &written) {
                                tokio::time::sleep(GATHER).await;
                            }
                        }
                        _ = written.changed() => self.tell(),
                        _ = added.changed() => self.tell(),
                        Ok(()) = lacks_token.changed() => self.tell(),
                    }
                }
            };
            tokio::select! {
                () = leading => {}
                () = leadership.lost() => { wanted.send_replace(None); }
                () = stop.cancelled() => return,
            }
        }
    }
}

impl fmt::Debug for WebhookRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookRules").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
