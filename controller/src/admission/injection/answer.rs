//! The answer of the webhook about a new pod: the containers of the SidecarSets that select it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetSpec};
use berth_kinds::sidecarset::inject::allowed::{self, Rules};
use berth_kinds::sidecarset::inject::{Matched, Settings, inject};
use berth_kinds::sidecarset::records;
use berth_kinds::sidecarset::repair::refused::note;
use berth_kinds::sidecarset::{Wanted, faults, wanted, without_bases};
use berth_runtime::Object;
use berth_runtime::driver::turn;
use berth_webhook::pods::{
    Injected, Injector, Labels, Lacks, NotYet, PROBE, applied_warning, left_out_warning,
};
use berth_workload::feature_gates::Gate;
use berth_workload::plan::{Action, Body, Plan};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Injection, InjectionStores, Latest, fails_closed, is_paused, may_be_called_for,
    recorded_revisions, suffix,
};
use crate::stores::watched::Watched;

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

/// By name of the SidecarSet.
type Matching = BTreeMap<String, (Arc<Watched<SidecarSet>>, Arc<Latest>)>;

impl Injection {
    /// The result for a pod. If it is computed ahead of a call (`is_ahead`), SidecarSets for which
    /// the webhook is not called add nothing.
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
                .splice(0..0, known.keys().map(|set| applied_warning(set)));
        }
        Ok(injected)
    }

    /// The SidecarSets that select a pod with these labels in the namespace.
    pub(super) fn matching<'a>(
        &self,
        stores: &InjectionStores,
        (namespace, namespace_labels): (&str, Option<&Labels>),
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Matching, Lacks> {
        let namespace = stores.namespaces.get("", namespace);
        let of_namespace = |key: &str| match (&namespace, namespace_labels) {
            (_, Some(namespace_labels)) => namespace_labels.get(key).map(String::as_str),
            (namespace, None) => namespace.as_ref()?.0.metadata.label(key),
        };
        let is_known = namespace.is_some() || namespace_labels.is_some();
        let (mut matching, mut left_out) = (BTreeMap::new(), false);
        for name in stores.selectors.of_labels(&label) {
            let Some(set) = stores.sets.get("", &name) else {
                continue;
            };
            if is_paused(&set.0) {
                continue;
            }
            let latest = self.latest(&set);
            // Whether the SidecarSet selects the pod depends on labels of the namespace, which are
            // not known.
            if !is_known
                && latest.selectors.asks_for_namespaces()
                && latest.selectors.selects_pod(&label)
            {
                return Err(Lacks::Namespace);
            }
            if latest.selectors.selects(&label, of_namespace) {
                matching.insert(set.name().to_owned(), (set, latest));
            } else {
                left_out |= namespace_labels.is_none() && latest.selectors.selects_pod(&label);
            }
        }
        // The apiserver calls for no pod that no SidecarSet selects. So it has other labels of the
        // namespace, which may have changed a moment ago.
        if left_out && matching.is_empty() {
            Err(Lacks::Namespace)
        } else {
            Ok(matching)
        }
    }

    /// The plan, with the containers already in its new pods. The webhook then finds nothing to do.
    /// If no replica answers, for example because all of them have just started, pods that we
    /// create ourselves still get their containers. Refusals are left to the webhook. Pods for
    /// which the webhook is not called stay as they are, and so do pods of an unknown namespace.
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
        // Tenants write the texts of pods, and large ones take their time.
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

    /// The faults of a SidecarSet, as far as the stores know other objects.
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

    /// The rules that say which annotations SidecarSets may put on pods. Rules that cannot be read
    /// allow none.
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
