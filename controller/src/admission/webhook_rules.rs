//! Joins the pods for which each kind wants the pod webhook called. While this replica leads, it
//! hands the result to the task that writes the webhook configuration.

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

/// Changes that come close together become one write. The first change does not wait, because a pod
/// may be created right after the object that asks for the webhook.
const GATHER: Duration = Duration::from_millis(100);

/// A kind that wants the webhook called for some pods.
pub(crate) trait WebhookRule: Send + Sync {
    /// Adds the pods of this kind; `false` while they are not known yet.
    fn add_to(&self, asks: &mut Asks) -> bool;
}

/// Asks for all pods except those of these namespaces, for the readiness gate.
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

/// The kinds that ask, and the channels to the task that writes the configuration.
#[derive(Default)]
pub(crate) struct WebhookRules {
    webhook: OnceLock<PodWebhook>,
    asking: Mutex<Vec<Arc<dyn WebhookRule>>>,
    changed: Notify,
    /// Called when the configuration was written, or when other writers have added to it.
    hooks: Mutex<Vec<Hook>>,
}

impl WebhookRules {
    /// Adds a kind that asks.
    pub(crate) fn ask(&self, asking: Arc<dyn WebhookRule>) {
        self.asking.lock().push(asking);
    }

    /// Adds a hook, called when the configuration was written, or when other writers have added to
    /// it.
    pub(crate) fn on_written(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push(Box::new(hook));
    }

    /// To be called when a kind may ask for other pods than before.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Sets the channels to the task that writes the configuration; to be called once.
    pub(crate) fn connect(&self, webhook: PodWebhook) {
        // A second call would be a bug, and the first value hides it: there is one server.
        let _ = self.webhook.set(webhook);
    }

    /// Whether this holds for the rules that were written last, and still holds for the wanted
    /// rules.
    pub(crate) fn has_written(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        self.webhook
            .get()
            .is_some_and(|webhook| webhook.stands_before(is_so))
    }

    /// Whether this holds for the wanted rules.
    pub(crate) fn wants(&self, is_so: impl Fn(&Asks) -> bool) -> bool {
        self.webhook
            .get()
            .is_some_and(|webhook| webhook.wanted.borrow().as_ref().is_some_and(is_so))
    }

    /// Whether no other replica decides on the entries, as far as this replica knows: it leads and
    /// has written them, or no kind asks here and no entries are to be written. A follower is
    /// called by the entries of the leader, which may have other settings.
    pub(crate) fn are_its_own(&self) -> bool {
        self.has_no_rules() || self.has_written(|_| true)
    }

    fn has_no_rules(&self) -> bool {
        self.asking.lock().is_empty()
    }

    /// The additions of other writers to the entries of SidecarSets; `None` before the entries were
    /// read. Without a webhook there are none.
    pub(crate) fn added(&self) -> Option<Added> {
        self.webhook.get().map_or_else(
            || Some(Added::default()),
            |webhook| webhook.added.borrow().clone(),
        )
    }

    /// Whether an apiserver calls without the token that the configuration asks for.
    pub(crate) fn lacks_token(&self) -> bool {
        self.webhook
            .get()
            .is_some_and(|webhook| *webhook.lacks_token.borrow())
    }

    fn tell(&self) {
        self.hooks.lock().iter().for_each(|hook| hook());
    }

    /// The rules of all kinds together, once every kind knows its own.
    fn all(&self) -> Option<Asks> {
        let asking = self.asking.lock();
        let mut asks = Asks::default();
        asking
            .iter()
            .all(|asking| asking.add_to(&mut asks))
            .then_some(asks)
    }

    /// The channels to the task that writes the configuration. If no kind asks but entries of ours
    /// exist, the wanted rules are empty, so that entries of disabled kinds are removed.
    fn writer_channels(&self, has_entries: bool) -> Option<PodWebhook> {
        self.webhook
            .get()
            .filter(|_| has_entries || !self.has_no_rules())
            .cloned()
    }

    /// Hands the rules to the task that writes the configuration while this replica leads, and
    /// calls the hooks when they were written.
    pub(crate) async fn keep(
        self: Arc<Self>,
        has_entries: bool,
        leadership: Leadership,
        stop: CancellationToken,
    ) {
        let Some(webhook) = self.writer_channels(has_entries) else {
            return stop.cancelled().await;
        };
        let PodWebhook {
            wanted,
            mut written,
            mut added,
            mut lacks_token,
        } = webhook;
        loop {
            // A replica that never leads must stop, too.
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
                    // If the wanted rules return to the written ones before a write, no write
                    // happens that would call the hooks.
                    if is_other && *written.borrow() == Some(asks) {
                        self.tell();
                    }
                    is_other
                };
                loop {
                    want(&wanted, &written);
                    tokio::select! {
                        () = self.changed.notified() => {
                            // A changed status changes no rule, so a change right after it need not
                            // wait.
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
