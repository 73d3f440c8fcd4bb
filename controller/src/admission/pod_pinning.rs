//! New pods of workloads that are not ours run where their records say: for which of them the pod
//! webhook is called, and what it answers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::settings::flags::PinnedBy;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_kinds::persistentpodstate::Pinning;
use berth_runtime::{Change, Object, Store};
use berth_webhook::pods::{Asks, NotYet, PinnedWorkload, Records, Scope};
use berth_workload::objects::owner::group;
use berth_workload::update::pin::pin;
use parking_lot::Mutex;
use serde_json::Value;

use crate::admission::pod_states::{TargetKind, age, of_workload};
use crate::admission::webhook_rules::{WebhookRule, WebhookRules};
use crate::stores::watched::Watched;

/// Decides what pins pods, and for which of them the pod webhook is called.
pub(crate) struct PodPinning {
    by: PinnedBy,
    fail_closed: bool,
    /// Namespaces for whose pods the webhook is not called.
    protected: BTreeSet<String>,
    asks: Arc<WebhookRules>,
    /// `None` if PersistentPodStates are disabled.
    records: Option<Arc<Store<Watched<PersistentPodState>>>>,
    /// How often records came, went or changed their spec.
    changes: AtomicU64,
    /// The scope that was computed after this number of changes.
    scope: Mutex<Option<(u64, Arc<Scope>)>>,
}

impl PodPinning {
    pub(crate) fn new(
        by: PinnedBy,
        fail_closed: bool,
        protected: BTreeSet<String>,
        asks: Arc<WebhookRules>,
        records: Option<Arc<Store<Watched<PersistentPodState>>>>,
    ) -> Arc<Self> {
        let (changes, scope) = Default::default();
        let pinning = Arc::new(Self {
            by,
            fail_closed,
            protected,
            asks,
            records,
            changes,
            scope,
        });
        if let Some(records) = pinning.records.as_ref().filter(|_| by == PinnedBy::Webhook) {
            pinning.asks.ask(pinning.clone());
            pinning.follow(records);
        }
        pinning
    }

    /// Adds a hook, called when it was written for which pods the webhook is called.
    pub(crate) fn on_written(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.asks.on_written(hook);
    }

    fn follow(self: &Arc<Self>, states: &Store<Watched<PersistentPodState>>) {
        // The store owns its hooks. A hook that held the store would be a reference cycle.
        let (asks, this) = (self.asks.clone(), Arc::downgrade(self));
        states.on_change(move |change| {
            let is_same =
                matches!(change, Change::Applied { old: Some(old), new } if is_same(old, new));
            if let Some(this) = this.upgrade().filter(|_| !is_same) {
                this.changes.fetch_add(1, Ordering::AcqRel);
            }
            asks.changed();
        });
    }

    /// The writer that pins the pods of the object's workload.
    pub(crate) fn of(&self, state: &PersistentPodState) -> Pinning {
        if TargetKind::of(state) == TargetKind::Ours {
            return Pinning::AtCreation;
        }
        match self.by {
            PinnedBy::None => Pinning::Off,
            _ if self.is_protected(state) => Pinning::Protected,
            PinnedBy::Policy => Pinning::Policy,
            PinnedBy::Webhook => {
                let workload = workload(state);
                if self.asks.has_written(|asks| asks.pins.has(&workload)) {
                    Pinning::Webhook
                } else if self.scope().is_some_and(|scope| !scope.has(&workload)) {
                    Pinning::TooMany
                } else {
                    Pinning::NotYet
                }
            }
        }
    }

    fn is_protected(&self, state: &PersistentPodState) -> bool {
        state
            .metadata
            .namespace
            .as_ref()
            .is_some_and(|namespace| self.protected.contains(namespace))
    }

    /// For which pods the webhook is to be called.
    fn scope(&self) -> Option<Arc<Scope>> {
        let changes = self.changes.load(Ordering::Acquire);
        let mut last = self.scope.lock();
        if let Some((_, scope)) = last.as_ref().filter(|(then, _)| *then == changes) {
            return Some(scope.clone());
        }
        let scope = Arc::new(self.scope_now()?);
        *last = Some((changes, scope.clone()));
        Some(scope)
    }

    fn scope_now(&self) -> Option<Scope> {
        let records = self.records.as_ref()?.all();
        let is_foreign = |state: &PersistentPodState| {
            TargetKind::of(state) != TargetKind::Ours && !self.is_protected(state)
        };
        let mut foreign: Vec<_> = records
            .into_iter()
            .filter(|state| is_foreign(&state.0) && !state.terminating())
            .collect();
        foreign.sort_by_cached_key(|state| age(state));
        let waits = |state: &PersistentPodState| {
            self.fail_closed && state.spec.required_persistent_topology.is_some()
        };
        Some(Scope::new(
            foreign
                .iter()
                .map(|state| (workload(&state.0), waits(&state.0))),
        ))
    }
}

impl WebhookRule for PodPinning {
    fn add_to(&self, asks: &mut Asks) -> bool {
        // The store reports changes after it is complete, too, so there is no need to wait.
        let Some(scope) = self
            .records
            .as_ref()
            .filter(|records| records.is_synced())
            .and_then(|_| self.scope())
        else {
            return false;
        };
        asks.pins = Scope::clone(&scope);
        true
    }
}

/// Whether a change of a record changes no scope, such as a change of its status.
fn is_same(old: &Watched<PersistentPodState>, new: &Watched<PersistentPodState>) -> bool {
    let of = |state: &Watched<PersistentPodState>| {
        (
            state.0.metadata.uid.clone(),
            state.0.metadata.generation,
            state.terminating(),
        )
    };
    of(old) == of(new)
}

/// The object's workload.
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
    fn persistent_pod_state(
        &self,
        namespace: &str,
        workload: (&str, &str, &str),
    ) -> Option<String> {
        of_workload(self.records.as_ref()?, namespace, workload)?
            .metadata
            .name
            .clone()
    }

    fn pin(&self, namespace: &str, pod: &mut Value) -> Result<bool, NotYet> {
        let records = self
            .records
            .as_ref()
            .filter(|records| records.is_synced())
            .ok_or(NotYet("PersistentPodStates"))?;
        let mut owners = pod["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        let Some(owner) = owners.find(|owner| owner["controller"] == true) else {
            return Ok(false);
        };
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (api_version, kind, workload) = (text("apiVersion"), text("kind"), text("name"));
        let Some(state) = of_workload(records, namespace, (api_version, kind, workload)) else {
            return Ok(false);
        };
        let name = pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let before = pod.clone();
        pin(pod, &name, &state);
        Ok(*pod != before)
    }
}
