//! New pods get the containers of the SidecarSets that select them: for which the pod webhook is called, and what it answers.

mod narrowed;
mod probe;
mod probes;
pub(crate) mod selectors;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use berth_api::names::annotation::MIRROR_POD;
use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetSpec};
use berth_kinds::sidecarset::allowed::{self, Rules};
use berth_kinds::sidecarset::inject::{Matched, Settings, inject};
use berth_kinds::sidecarset::names::{FAILURE_POLICY, HASH};
use berth_kinds::sidecarset::records;
use berth_kinds::sidecarset::refused::note;
use berth_kinds::sidecarset::{Asked, LeftOut, Wanted, faults, wanted, without_bases};
use berth_runtime::{Change, Object, Store, turn};
use berth_webhook::pods::{
    Asks, Injected, Injector, Labels, Lacks, NotYet, PROBE, SidecarAsk, Sidecars, UNTOUCHED,
    asked_warning, left_out_warning,
};
use berth_workload::gates::{Gate, Gates};
use berth_workload::namespace::Namespace;
use berth_workload::plan::{Action, Body, Plan};
use berth_workload::pod::Pod;
use berth_workload::revision::{self, Revision};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::custom_workloads::CustomWorkloads;
use crate::pod_asks::{Asking, PodAsks};
use crate::reads::Reader;
use crate::watched::{Watched, sidecar_set_revisions};
pub(crate) use narrowed::Narrowed;
use probes::Probes;
use selectors::{Compiled, Selectors};

/// Who injects, and what for.
pub(crate) struct Injection {
    asks: Arc<PodAsks>,
    gates: Gates,
    own_namespace: String,
    /// Namespaces whose pods are left alone.
    protected: BTreeSet<String>,
    /// `None` where no pod gets containers.
    stores: Option<InjectionStores>,
    /// The text of the rules that were read last, and what it says.
    rules: Mutex<(String, Arc<Rules>)>,
    /// By name: a SidecarSet as it was last asked for, and what it asks for.
    latest: Mutex<BTreeMap<String, LastAsked>>,
    /// What dry runs of pods' creations have shown.
    probes: Probes,
}

/// What injection reads.
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

/// A SidecarSet, and what is asked of it.
type LastAsked = (Arc<SidecarSet>, Arc<Latest>);

/// What is asked of a SidecarSet for each pod.
struct Latest {
    selectors: Compiled,
    /// Hashes take time, so they are of those that select a pod. A revision that was just made has the name that was computed before
    /// it, so what is known stays true.
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
        asks: Arc<PodAsks>,
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
        // The store holds its hooks, so a hook must not hold the store.
        let (asks, this) = (self.asks.clone(), Arc::downgrade(self));
        sets.on_change(move |change| {
            let is_asked_as_before = matches!(
                change,
                Change::Applied { old: Some(old), new } if ask_of(&old.0) == ask_of(&new.0)
            );
            if !is_asked_as_before {
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

    /// What is turned on.
    pub(crate) fn gates(&self) -> Gates {
        self.gates
    }

    /// Would nobody inject into the pod, whatever selects it? The webhook is not called for such a pod, so it misses nothing.
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

    /// To be told when it was written for whose pods the webhook is called.
    pub(crate) fn on_written(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.asks.on_written(hook);
    }

    /// Would no pod of the namespace get containers, whatever selects it?
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

    /// Is the webhook called for pods that the SidecarSet selects, by its selectors as they are here?
    pub(crate) fn asked(&self, set: &SidecarSet) -> Asked {
        let ask = ask_of(set);
        if !self.gates.has(Gate::PodWebhook) {
            Asked::Never
        } else if ask.is_some_and(|ask| self.asks.has_written(|asks| asks.sidecars.has(&ask))) {
            Asked::Yes
        } else if self.asks.has_written(|_| true) {
            Asked::NotYet
        } else {
            Asked::Unknown
        }
    }

    /// For which pods that the SidecarSet selects the webhook is called, by what others have made of its entry.
    pub(crate) fn narrowed(&self, set: &SidecarSet) -> Narrowed {
        let entry = ask_of(set).map(|ask| ask.entry(&self.protected));
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
            // The next look at it compares nothing but where it is.
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

/// Does a pod get the same of both? Numbers of pods in a status, which changes every second while pods are created, change nothing.
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

/// By SidecarSet: the revision of whose containers the pod has some already.
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

/// Would the webhook be called for the pod if it were selected, in a namespace that is not protected? Of one that is not known nobody
/// can tell.
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

/// What the SidecarSet asks for; a paused one asks for nothing.
fn ask_of(set: &SidecarSet) -> Option<SidecarAsk> {
    Some(SidecarAsk {
        name: set.metadata.name.clone().unwrap_or_default(),
        selector: set.spec.selector.clone().filter(|_| !is_paused(set))?,
        namespaces: set.spec.namespace_selector.clone(),
        fails_closed: fails_closed(set),
    })
}

impl Asking for Injection {
    fn add_to(&self, asks: &mut Asks) -> bool {
        let Some(stores) = self
            .stores
            .as_ref()
            .filter(|stores| stores.sets.is_synced())
        else {
            return false;
        };
        let sets = stores.sets.all();
        let all = sets.iter().filter_map(|set| ask_of(&set.0));
        asks.sidecars = Sidecars::new(all, self.protected.iter().cloned());
        true
    }
}

impl Injector for Injection {
    fn faults(&self, set: &str, old: Option<&str>) -> Vec<String> {
        let before = old.map(|old| self.faults_of(old)).unwrap_or_default();
        self.faults_of(set)
            .into_iter()
            .filter(|fault| !before.contains(fault))
            .collect()
    }

    fn inject(
        &self,
        namespace: &str,
        labels: Option<&Labels>,
        pod: &Value,
    ) -> Result<Injected, Lacks> {
        self.answer((namespace, labels), pod, false)
    }

    fn inject_ahead(&self, namespace: &str, pod: &Value) -> Option<Value> {
        self.answer((namespace, None), pod, true)
            .ok()
            .filter(|injected| injected.refused.is_none())?
            .pod
    }
}

/// By name.
type Matching = BTreeMap<String, (Arc<Watched<SidecarSet>>, Arc<Latest>)>;

impl Injection {
    /// What becomes of the pod; of a SidecarSet for which the webhook is not called nothing comes ahead of a call.
    fn answer(
        &self,
        (namespace, labels): (&str, Option<&Labels>),
        pod: &Value,
        is_ahead: bool,
    ) -> Result<Injected, Lacks> {
        let stores = self
            .stores
            .as_ref()
            .ok_or(Lacks::Store(NotYet("SidecarSets")))?;
        for (is_synced, what) in [
            (stores.sets.is_synced(), "SidecarSets"),
            (stores.namespaces.is_synced(), "namespaces"),
            (stores.revisions.is_synced(), "ControllerRevisions"),
        ] {
            if !is_synced {
                return Err(Lacks::Store(NotYet(what)));
            }
        }
        if self.protects(namespace) {
            return Ok(Injected::default());
        }
        let label = |key: &str| pod["metadata"]["labels"][key].as_str();
        let known = self.matching(stores, (namespace, labels), label)?;
        let of_namespace = stores.namespaces.get("", namespace);
        let recorded = recorded_revisions(pod);
        let mut refused: Vec<(String, String, bool)> = Vec::new();
        let mut chosen = Vec::new();
        for set in without_bases(known.values().map(|(set, _)| set.0.clone()).collect()) {
            let name = set.metadata.name.clone().unwrap_or_default();
            let Some((watched, latest)) = known.get(&name) else {
                continue;
            };
            if is_ahead
                && self
                    .narrowed(&set)
                    .leaves_out(label, of_namespace.as_deref())
            {
                continue;
            }
            let history = || self.history(stores, watched);
            let latest = latest
                .wanted
                .get_or_init(|| Wanted::latest(&set, &history()));
            let had = recorded.get(&name).map(String::as_str);
            match wanted(&set, history, latest, label, (fastrand::f64(), had)) {
                Ok(wanted) => chosen.push((name, set, wanted)),
                Err(why) => refused.push((name, why, fails_closed(&set))),
            }
        }
        let mut injected = self.injected(pod, &chosen, refused);
        if pod["metadata"]["generateName"] == PROBE {
            injected
                .warnings
                .splice(0..0, known.keys().map(|set| asked_warning(set)));
        }
        Ok(injected)
    }

    /// The SidecarSets that select a pod with these labels in the namespace.
    fn matching<'a>(
        &self,
        stores: &InjectionStores,
        (namespace, asked): (&str, Option<&Labels>),
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Matching, Lacks> {
        let namespace = stores.namespaces.get("", namespace);
        let of_namespace = |key: &str| match (&namespace, asked) {
            (_, Some(asked)) => asked.get(key).map(String::as_str),
            (namespace, None) => namespace.as_ref()?.0.metadata.label(key),
        };
        let is_known = namespace.is_some() || asked.is_some();
        let (mut matching, mut left_out) = (BTreeMap::new(), false);
        for name in stores.selectors.of_labels(&label) {
            let Some(set) = stores.sets.get("", &name) else {
                continue;
            };
            if is_paused(&set.0) {
                continue;
            }
            let latest = self.latest(&set);
            // Without its namespace's labels nobody knows.
            if !is_known
                && latest.selectors.asks_for_namespaces()
                && latest.selectors.selects_pod(&label)
            {
                return Err(Lacks::Namespace);
            }
            if latest.selectors.selects(&label, of_namespace) {
                matching.insert(set.name().to_owned(), (set, latest));
            } else {
                left_out |= asked.is_none() && latest.selectors.selects_pod(&label);
            }
        }
        // The apiserver asks about no pod that none selects: it has other labels of the namespace, which may have changed a moment ago.
        if left_out && matching.is_empty() {
            Err(Lacks::Namespace)
        } else {
            Ok(matching)
        }
    }

    /// The plan, whose new pods have the containers already. The webhook finds nothing to do then, and where no replica answers it, as
    /// when all of them have just started, pods that we create ourselves do not miss them. What is refused the webhook refuses, and for
    /// whom it is not called nothing is done here either: that takes a namespace that is known.
    pub(crate) fn with_sidecars<'a>(&self, plan: &'a Plan) -> Cow<'a, Plan> {
        let is_new_pod = |action: &Action| matches!(action, Action::CreatePod { .. });
        let Some(stores) = self
            .stores
            .as_ref()
            .filter(|stores| !stores.sets.is_empty())
        else {
            return Cow::Borrowed(plan);
        };
        if !plan.actions().any(is_new_pod) {
            return Cow::Borrowed(plan);
        }
        // The pods' texts are a tenant's, and large ones take their time.
        Cow::Owned(turn::alone(true, || {
            self.new_pods_injected(stores, plan.clone())
        }))
    }

    fn new_pods_injected(&self, stores: &InjectionStores, mut plan: Plan) -> Plan {
        let steps = plan.stages.iter_mut().flat_map(|stage| &mut stage.steps);
        for action in steps.flat_map(|step| &mut step.actions) {
            let Action::CreatePod { body } = action else {
                continue;
            };
            let pod = body.value();
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
            let known = stores.namespaces.get("", namespace);
            if !may_be_called_for(&pod, known.as_deref()) {
                continue;
            }
            if let Some(injected) = self.inject_ahead(namespace, &pod) {
                *body = Body::from(&injected);
            }
        }
        plan
    }

    /// What is wrong with a SidecarSet, as far as the stores know others.
    fn faults_of(&self, text: &str) -> Vec<String> {
        let (Some(stores), Ok(set)) = (
            self.stores.as_ref(),
            serde_json::from_str::<SidecarSet>(text),
        ) else {
            return Vec::new();
        };
        if !stores.sets.is_synced() {
            return Vec::new();
        }
        let others: Vec<_> = stores
            .sets
            .all()
            .iter()
            .map(|other| other.0.clone())
            .collect();
        let known = stores
            .sets
            .get("", set.metadata.name.as_deref().unwrap_or_default());
        let history = match known.filter(|_| stores.revisions.is_synced()) {
            Some(known) => Some(self.history(stores, &known)),
            None => stores.revisions.is_synced().then(Vec::new),
        };
        let allowed = stores
            .configuration
            .is_known()
            .then(|| self.allowed(&set, &set.spec));
        faults(&set, &others, history.as_deref(), allowed.as_ref())
    }

    /// Which annotations SidecarSets may put on pods. What cannot be read allows nothing.
    fn rules(&self) -> Arc<Rules> {
        let text = self
            .stores
            .as_ref()
            .and_then(|stores| stores.configuration.configured(allowed::KEY));
        let Some(text) = text else {
            return Arc::default();
        };
        let mut known = self.rules.lock();
        if known.0 != text {
            let rules = Rules::read(&text).unwrap_or_else(|error| {
                tracing::warn!(error, "SidecarSets may put no annotation on pods");
                Rules::default()
            });
            *known = (text, Arc::new(rules));
        }
        known.1.clone()
    }

    /// The annotations of a revision's patchPodMetadata that the SidecarSet may put on pods.
    pub(crate) fn allowed(&self, set: &SidecarSet, spec: &SidecarSetSpec) -> BTreeSet<String> {
        let patches = &spec.patch_pod_metadata;
        if patches.is_empty() {
            return BTreeSet::new();
        }
        let (rules, labels) = (
            self.rules(),
            set.metadata.labels.clone().unwrap_or_default(),
        );
        let allowed = rules.of(&labels, self.gates.has(Gate::AnyPodMetadata));
        let keys = patches.iter().flat_map(|patch| patch.annotations.keys());
        keys.filter(|key| allowed.allows(key)).cloned().collect()
    }

    fn injected(
        &self,
        pod: &Value,
        chosen: &[(String, Arc<SidecarSet>, Wanted)],
        mut refused: Vec<(String, String, bool)>,
    ) -> Injected {
        let matched: Vec<_> = chosen
            .iter()
            .map(|(name, _, wanted)| Matched {
                name,
                spec: &wanted.spec,
                revision: &wanted.revision,
                hashes: &wanted.hashes,
            })
            .collect();
        let allowed = |(name, set, wanted): &(String, Arc<SidecarSet>, Wanted)| {
            (name.clone(), self.allowed(set, &wanted.spec))
        };
        let allowed: BTreeMap<_, _> = chosen.iter().map(allowed).collect();
        let allows = |set: &str, key: &str| {
            allowed
                .get(set)
                .is_some_and(|allowed| allowed.contains(key))
        };
        let settings = Settings {
            sort_containers_by_name: self.gates.has(Gate::SortSidecarContainersByName),
            allows: &allows,
            suffix: &suffix(),
        };
        let mut injected = inject(
            pod,
            &matched,
            &settings,
            &records::second(Timestamp::now()).to_string(),
        );
        for refusal in injected.refusals {
            let set = chosen
                .iter()
                .find(|(name, ..)| *name == refusal.sidecar_set);
            let is_denied = refusal.is_of_pod || set.is_some_and(|(_, set, _)| fails_closed(set));
            refused.push((refusal.sidecar_set, refusal.reason, is_denied));
        }
        let mut warnings = injected.warnings;
        let words = |(set, why, _): &(String, String, bool)| left_out_warning(set, why);
        let is_refused = refused.iter().find(|(.., is_denied)| *is_denied);
        let is_refused = is_refused.map(|(set, why, _)| {
            format!("SidecarSet {set} cannot give the pod its containers: {why}")
        });
        warnings.extend(refused.iter().map(words));
        note(
            &mut injected.pod,
            refused.iter().map(|(set, why, _)| (&**set, &**why)),
        );
        Injected {
            pod: (injected.pod != *pod).then_some(injected.pod),
            warnings,
            refused: is_refused,
        }
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
