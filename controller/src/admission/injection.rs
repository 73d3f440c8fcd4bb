//! New pods get the containers of the SidecarSets that select them: for which pods the pod webhook
//! is called, and what it answers.

mod answer;
mod narrowed;
mod probe;
mod probes;
pub(crate) mod selectors;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use berth_api::names::annotation::MIRROR_POD;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_kinds::sidecarset::inject::allowed::Rules;
use berth_kinds::sidecarset::names::{FAILURE_POLICY, HASH};
use berth_kinds::sidecarset::records;
use berth_kinds::sidecarset::{InjectionCalls, LeftOut, Wanted};
use berth_runtime::{Change, Object, Store};
use berth_webhook::pods::{Asks, SidecarRequest, Sidecars, UNTOUCHED};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::namespace::Namespace;
use berth_workload::objects::pod::Pod;
use berth_workload::update::revision::{self, Revision};
use parking_lot::Mutex;
use serde_json::Value;

use crate::admission::webhook_rules::{WebhookRule, WebhookRules};
use crate::stores::custom_workloads::CustomWorkloads;
use crate::stores::reads::Reader;
use crate::stores::watched::{Watched, sidecar_set_revisions};
pub(crate) use narrowed::Narrowed;
use probes::Probes;
use selectors::{Compiled, Selectors};

/// Decides which containers new pods get.
pub(crate) struct Injection {
    asks: Arc<WebhookRules>,
    gates: Gates,
    own_namespace: String,
    /// Namespaces whose pods are left alone.
    protected: BTreeSet<String>,
    /// `None` where no pod gets containers.
    stores: Option<InjectionStores>,
    /// The text of the injection rules that were read last, and the parsed rules.
    rules: Mutex<(String, Arc<Rules>)>,
    /// By name: a SidecarSet as it was last read, and what was computed from it.
    latest: Mutex<BTreeMap<String, Computed>>,
    /// The results of dry runs of pods' creations.
    probes: Probes,
}

/// The stores that injection reads.
pub(crate) struct InjectionStores {
    sets: Arc<Store<Watched<SidecarSet>>>,
    selectors: Arc<Selectors>,
    namespaces: Arc<Store<Watched<Namespace>>>,
    revisions: Arc<Store<Watched<Revision>>>,
    configuration: Arc<CustomWorkloads>,
}

impl InjectionStores {
    pub(crate) fn new(reader: &mut Reader<'_>) -> Self {
        let sets = reader.read();
        Self {
            selectors: Selectors::of_sets(&sets),
            sets,
            namespaces: reader.read(),
            revisions: reader.read(),
            configuration: reader.custom_workloads(),
        }
    }
}

/// A SidecarSet, and what was computed from it.
type Computed = (Arc<SidecarSet>, Arc<Latest>);

/// The parts of a SidecarSet that each injection needs.
struct Latest {
    selectors: Compiled,
    /// Hashes take time, so they are computed only for a SidecarSet that selects a pod. A revision
    /// that was just made has the name that was computed before it existed, so the value stays
    /// right.
    wanted: OnceLock<Wanted>,
}

/// The namespaces of the flag, separated by commas, and the controller's own.
pub(crate) fn protected_namespaces(own_namespace: &str, flag: &str) -> BTreeSet<String> {
    let named = flag
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    named.chain([own_namespace]).map(str::to_owned).collect()
}

impl Injection {
    pub(crate) fn new(
        asks: Arc<WebhookRules>,
        gates: Gates,
        own_namespace: &str,
        protected: &str,
        stores: Option<InjectionStores>,
    ) -> Arc<Self> {
        let injection = Arc::new(Self {
            asks,
            gates,
            own_namespace: own_namespace.to_owned(),
            protected: protected_namespaces(own_namespace, protected),
            stores: stores.filter(|_| gates.has(Gate::PodWebhook)),
            latest: Mutex::default(),
            rules: Mutex::default(),
            probes: Probes::default(),
        });
        if let Some(stores) = &injection.stores {
            injection.asks.ask(injection.clone());
            injection.follow(&stores.sets);
        }
        injection
    }

    fn follow(self: &Arc<Self>, sets: &Store<Watched<SidecarSet>>) {
        // The store owns its hooks. A hook that held the store would be a reference cycle.
        let (asks, this) = (self.asks.clone(), Arc::downgrade(self));
        sets.on_change(move |change| {
            let is_same_request = matches!(
                change,
                Change::Applied { old: Some(old), new } if request_of(&old.0) == request_of(&new.0)
            );
            if !is_same_request {
                asks.changed();
            }
            if let (Change::Deleted { old }, Some(this)) = (change, this.upgrade()) {
                this.latest.lock().remove(old.name());
                this.probes.forget(old.name());
            }
        });
    }

    /// The controller's namespace, where revisions are.
    pub(crate) fn own_namespace(&self) -> &str {
        &self.own_namespace
    }

    /// The feature gates.
    pub(crate) fn gates(&self) -> Gates {
        self.gates
    }

    /// Whether the pod gets no containers, whichever SidecarSet selects it. The webhook is not
    /// called for such a pod, so the pod lacks nothing.
    pub(crate) fn leaves_alone(&self, pod: &Pod, namespaces: &Store<Watched<Namespace>>) -> bool {
        self.protected.contains(&*pod.metadata.namespace)
            || pod.metadata.annotation(MIRROR_POD).is_some()
            || namespaces
                .get("", &pod.metadata.namespace)
                .is_some_and(|namespace| is_untouched(&namespace))
    }

    /// Namespaces whose pods are left alone.
    pub(crate) fn protected(&self) -> &BTreeSet<String> {
        &self.protected
    }

    /// Are the pods of the namespace left alone?
    pub(crate) fn protects(&self, namespace: &str) -> bool {
        self.protected.contains(namespace)
    }

    /// Adds a hook, called when it was written for which pods the webhook is called.
    pub(crate) fn on_written(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.asks.on_written(hook);
    }

    /// Why no pod of the namespace would get containers, whichever SidecarSet selects it; `None` if
    /// its pods do get them.
    pub(crate) fn leaves_out(&self, namespace: &Watched<Namespace>) -> Option<LeftOut> {
        if self.protects(namespace.name()) {
            Some(LeftOut::Protected)
        } else {
            is_untouched(namespace).then_some(LeftOut::Labelled)
        }
    }

    /// How many SidecarSets there are.
    fn sets(&self) -> usize {
        self.stores
            .as_ref()
            .map_or(0, |stores| stores.sets.all().len())
    }

    /// Is the webhook called for pods that the SidecarSet selects, by its selectors as they are
    /// here?
    pub(crate) fn injection_calls(&self, set: &SidecarSet) -> InjectionCalls {
        let request = request_of(set);
        if !self.gates.has(Gate::PodWebhook) {
            InjectionCalls::Never
        } else if request
            .is_some_and(|request| self.asks.has_written(|asks| asks.sidecars.has(&request)))
        {
            InjectionCalls::Yes
        } else if self.asks.has_written(|_| true) {
            InjectionCalls::NotYet
        } else {
            InjectionCalls::Unknown
        }
    }

    /// For which pods that the SidecarSet selects the webhook is called, after the changes that
    /// other writers made to its entry.
    pub(crate) fn narrowed(&self, set: &SidecarSet) -> Narrowed {
        let entry = request_of(set).map(|request| request.entry(&self.protected));
        Narrowed::new(
            self.asks
                .added()
                .as_ref()
                .map(|added| entry.map(|entry| added.to(&entry)).unwrap_or_default()),
        )
    }

    fn latest(&self, set: &Watched<SidecarSet>) -> Arc<Latest> {
        let mut all = self.latest.lock();
        if let Some((read, latest)) = all.get_mut(set.name())
            && is_the_same(read, &set.0)
        {
            // The same content at another address: from now on a comparison of addresses is enough.
            *read = set.0.clone();
            return latest.clone();
        }
        let new = Arc::new(Latest {
            selectors: Compiled::new(&set.0),
            wanted: OnceLock::new(),
        });
        all.insert(set.name().to_owned(), (set.0.clone(), new.clone()));
        new
    }

    fn history(&self, stores: &InjectionStores, set: &Watched<SidecarSet>) -> Vec<Arc<Revision>> {
        sidecar_set_revisions(&stores.revisions, set, &self.own_namespace)
    }
}

/// Does a pod get the same from both? Numbers of pods in a status change every second while pods
/// are created, and change nothing here.
fn is_the_same(read: &Arc<SidecarSet>, now: &Arc<SidecarSet>) -> bool {
    let named = |set: &SidecarSet| {
        let status = set.status.as_ref();
        status
            .map(|status| {
                (
                    status.latest_revision.clone(),
                    status.collision_count.unwrap_or(0),
                )
            })
            .unwrap_or_default()
    };
    Arc::ptr_eq(read, now) || (read.spec == now.spec && named(read) == named(now))
}

/// The end of a generated name.
fn suffix() -> String {
    let random: String = (0..5).map(|_| char::from(fastrand::u8(..27))).collect();
    revision::safe(&random)
}

/// By SidecarSet: the revision whose containers the pod has already.
fn recorded_revisions(pod: &Value) -> BTreeMap<String, String> {
    let text = pod["metadata"]["annotations"][HASH].as_str();
    let records = records::read(text).into_iter();
    records
        .map(|(set, record)| (set, record.controller_revision))
        .collect()
}

fn is_untouched(namespace: &Watched<Namespace>) -> bool {
    namespace.0.metadata.label(UNTOUCHED.0) == Some(UNTOUCHED.1)
}

/// Would the webhook be called for the pod if it were selected, in a namespace that is not
/// protected? No if the namespace is not known.
fn may_be_called_for(pod: &Value, namespace: Option<&Watched<Namespace>>) -> bool {
    let is_mirror = !pod["metadata"]["annotations"][MIRROR_POD].is_null();
    !is_mirror && namespace.is_some_and(|namespace| !is_untouched(namespace))
}

pub(crate) fn is_paused(set: &SidecarSet) -> bool {
    set.spec.injection_strategy.paused || set.metadata.deletion_timestamp.is_some()
}

fn fails_closed(set: &SidecarSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(FAILURE_POLICY))
        .is_some_and(|policy| policy == "Fail")
}

/// The rule for the SidecarSet; a paused one has none.
fn request_of(set: &SidecarSet) -> Option<SidecarRequest> {
    Some(SidecarRequest {
        name: set.metadata.name.clone().unwrap_or_default(),
        selector: set.spec.selector.clone().filter(|_| !is_paused(set))?,
        namespaces: set.spec.namespace_selector.clone(),
        fails_closed: fails_closed(set),
    })
}

impl WebhookRule for Injection {
    fn add_to(&self, asks: &mut Asks) -> bool {
        let Some(stores) = self
            .stores
            .as_ref()
            .filter(|stores| stores.sets.is_synced())
        else {
            return false;
        };
        let sets = stores.sets.all();
        let all = sets.iter().filter_map(|set| request_of(&set.0));
        asks.sidecars = Sidecars::new(all, self.protected.iter().cloned());
        true
    }
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection")
            .field("protected", &self.protected)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
