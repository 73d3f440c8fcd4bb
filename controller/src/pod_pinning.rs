//! New pods of workloads that are not ours go where their records say: which of them the pod webhook is called for, and what it
//! answers.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_controller::flags::PinnedBy;
use berth_kinds::persistentpodstate::Pinning;
use berth_runtime::election::Leadership;
use berth_runtime::{CancellationToken, Object, Store};
use berth_webhook::PodWebhook;
use berth_webhook::pods::{NotYet, PinnedWorkload, Records, Scope};
use berth_workload::owner::group;
use berth_workload::pin::pin;
use serde_json::Value;
use tokio::sync::Notify;

use crate::controllers::persistentpodstate::{TargetKind, of_workload};
use crate::watched::Watched;

/// Changes that come close together are one write.
const GATHER: Duration = Duration::from_millis(200);

type Hook = Box<dyn Fn() + Send + Sync>;

/// Who pins pods, and for whose the pod webhook is called.
pub(crate) struct PodPinning {
    by: PinnedBy,
    fail_closed: bool,
    webhook: OnceLock<PodWebhook>,
    records: OnceLock<Arc<Store<Watched<PersistentPodState>>>>,
    changed: Notify,
    /// Told when the scope was written.
    hook: OnceLock<Hook>,
}

impl PodPinning {
    pub(crate) fn new(by: PinnedBy, fail_closed: bool) -> Arc<Self> {
        Arc::new(Self {
            by,
            fail_closed,
            webhook: OnceLock::new(),
            records: OnceLock::new(),
            changed: Notify::new(),
            hook: OnceLock::new(),
        })
    }

    /// To be told when the scope was written; by one who is told.
    pub(crate) fn on_written(&self, hook: impl Fn() + Send + Sync + 'static) {
        let _ = self.hook.set(Box::new(hook));
    }

    /// By these records; to be called once.
    pub(crate) fn follow(self: &Arc<Self>, states: &Arc<Store<Watched<PersistentPodState>>>) {
        if self.records.set(states.clone()).is_err() || self.by != PinnedBy::Webhook {
            return;
        }
        let pinning = self.clone();
        states.on_change(move |_| pinning.changed.notify_one());
    }

    /// Where the scope is written to; to be called once.
    pub(crate) fn connect(&self, webhook: PodWebhook) {
        // A second one would be a mistake that the first call's value hides: there is one server.
        let _ = self.webhook.set(webhook);
    }

    /// Who pins the pods of the object's workload.
    pub(crate) fn of(&self, state: &PersistentPodState) -> Pinning {
        if TargetKind::of(state) == TargetKind::Ours {
            return Pinning::AtCreation;
        }
        match self.by {
            PinnedBy::Policy => Pinning::Policy,
            PinnedBy::None => Pinning::Off,
            PinnedBy::Webhook => {
                let workload = workload(state);
                let is_in =
                    |webhook: &PodWebhook| webhook.written.borrow().as_ref().is_some_and(|scope| scope.has(&workload));
                if self.webhook.get().is_some_and(is_in) {
                    Pinning::Webhook
                } else if self.scope().is_some_and(|scope| !scope.has(&workload)) {
                    Pinning::TooMany
                } else {
                    Pinning::NotYet
                }
            }
        }
    }

    /// For whose pods the webhook is to be called.
    fn scope(&self) -> Option<Scope> {
        let records = self.records.get()?.all();
        let foreign =
            records.iter().filter(|state| TargetKind::of(&state.0) != TargetKind::Ours && !state.terminating());
        let waits = |state: &PersistentPodState| self.fail_closed && state.spec.required_persistent_topology.is_some();
        Some(Scope::new(foreign.map(|state| (workload(&state.0), waits(&state.0)))))
    }

    /// Tells the webhook's keeper the scope, as long as this replica leads, and the hook when it is written.
    pub(crate) async fn keep(self: Arc<Self>, leadership: Leadership, stop: CancellationToken) {
        let ends = (self.by, self.webhook.get().cloned(), self.records.get());
        let (PinnedBy::Webhook, Some(PodWebhook { wanted, mut written }), Some(records)) = ends else {
            return stop.cancelled().await;
        };
        loop {
            leadership.acquired().await;
            let leading = async {
                // It ends with the store, which nobody drops.
                let _ = records.sync_state().wait_for(|synced| *synced).await;
                loop {
                    let scope = self.scope();
                    wanted.send_if_modified(|old| std::mem::replace(old, scope.clone()) != scope);
                    tokio::select! {
                        () = self.changed.notified() => tokio::time::sleep(GATHER).await,
                        _ = written.changed() => self.hook.get().into_iter().for_each(|hook| hook()),
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

/// The workload that the object is of.
fn workload(state: &PersistentPodState) -> PinnedWorkload {
    let target = &state.spec.target_ref;
    PinnedWorkload {
        namespace: state.metadata.namespace.clone().unwrap_or_default(),
        group: group(&target.api_version).to_owned(),
        kind: target.kind.clone(),
        name: target.name.clone(),
    }
}

impl fmt::Debug for PodPinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodPinning")
            .field("by", &self.by)
            .field("fail_closed", &self.fail_closed)
            .finish_non_exhaustive()
    }
}

impl Records for PodPinning {
    fn keeper(&self, namespace: &str, workload: (&str, &str, &str)) -> Option<String> {
        of_workload(self.records.get()?, namespace, workload)?.metadata.name.clone()
    }

    fn pin(&self, namespace: &str, pod: &mut Value) -> Result<bool, NotYet> {
        let records = self.records.get().filter(|records| records.is_synced()).ok_or(NotYet)?;
        let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let Some(owner) = owners.find(|owner| owner["controller"] == true) else { return Ok(false) };
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (api_version, kind, workload) = (text("apiVersion"), text("kind"), text("name"));
        let Some(state) = of_workload(records, namespace, (api_version, kind, workload)) else { return Ok(false) };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let before = pod.clone();
        pin(pod, &name, &state);
        Ok(*pod != before)
    }
}
