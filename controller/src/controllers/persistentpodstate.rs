//! The PersistentPodState controller: records where pods are, and creates the objects that
//! workloads ask for.

mod annotations;
mod targets;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_kinds::persistentpodstate::{Snapshot, Target, decide, status};
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store, object};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::ordinals::set_and_ordinal;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::untyped_workload::stateful::StatefulWorkload;
use berth_workload::share;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::admission::injection::protected_namespaces;
use crate::admission::pod_pinning::PodPinning;
use crate::admission::pod_states::{self, age};
use crate::budgets::BudgetStores;
use crate::context::{Context, next};
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::reconcile::podset::by_node;
use crate::stores::custom_resources::STATES_BY_TARGET;
use crate::stores::custom_workloads::CustomWorkloads;
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::Watched;
use crate::stores::watched::by_namespace;
use annotations::Annotations;
use berth_kinds::persistentpodstate::{Pinning, explain};
use serde_json::Value;

/// The shortest time between two rounds of one object, each of which may write its records. Each of
/// its pods changes several times in a rollout.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);

/// The stores that a decision about a PersistentPodState reads.
pub(crate) struct PersistentPodStateController {
    pub(crate) states: Arc<Store<Watched<PersistentPodState>>>,
    sets: Arc<Store<Watched<StatefulSet>>>,
    native: Arc<Store<Watched<StatefulWorkload>>>,
    custom: Arc<CustomWorkloads>,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Watched<Node>>>,
    annotations: Annotations,
    /// When each object was last reconciled.
    looked: Mutex<HashMap<Key, Instant>>,
}

impl Controller for PersistentPodStateController {
    const RESOURCE: Resource = object::PERSISTENT_POD_STATES;
    const NAME: &'static str = "persistentpodstate";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            states: reader.read(),
            sets: reader.read(),
            native: reader.read(),
            custom: reader.custom_workloads(),
            pods: reader.read(),
            nodes: reader.read(),
            annotations: Annotations::default(),
            looked: Mutex::default(),
        }
    }

    /// Wakes a PersistentPodState when it, its workload, or a pod of the workload changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, on, states) = (queue.clone(), context.clone(), Arc::downgrade(&self.states));
        self.states.on_change(move |change| {
            if let (Change::Deleted { old }, Some(states)) = (change, states.upgrade()) {
                on.expectations.forget(old.uid());
                // Another object of the same workload may keep the records from now on.
                wake_for_target(&to, &states, old.namespace(), &old.0.spec.target_ref.name);
                let mut all = states.by_index(&by_namespace(), old.namespace());
                share::keep_oldest(&mut all, |state| age(state));
                // The youngest object may count now.
                let last = all
                    .iter()
                    .max_by_key(|state| age(state))
                    .filter(|_| all.len() >= share::MOST);
                last.into_iter().for_each(|state| to.add(Key::of(&**state)));
            }
            each(change, |state| to.add(Key::of(state)));
        });
        let (to, states) = (queue.clone(), self.states.clone());
        self.sets.on_change(move |change| {
            each(change, |set| wake_for_workload(&to, &states, &Key::of(set)))
        });
        let (to, states) = (queue.clone(), self.states.clone());
        self.native.on_change(move |change| {
            each(change, |set| wake_for_workload(&to, &states, &Key::of(set)))
        });
        let (to, states) = (queue.clone(), self.states.clone());
        self.custom.on_change(move |key| match key {
            Some(key) => wake_for_workload(&to, &states, key),
            None => states
                .all()
                .iter()
                .for_each(|state| to.add(Key::of(&**state))),
        });
        let (to, states) = (queue.clone(), self.states.clone());
        self.pods
            .on_change(move |change| each(change, |pod| wake_for_pod(&to, &states, pod)));
        let (to, states) = (queue.clone(), self.states.clone());
        context.pod_pinning.on_written(move || {
            states
                .all()
                .iter()
                .for_each(|state| to.add(Key::of(&**state)))
        });
    }

    /// One round for one name: of a PersistentPodState, of workloads that may ask for one, or of
    /// both.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let state = self.states.get(&key.namespace, &key.name);
        let Some(owner) = state
            .as_ref()
            .map(|state| Owner::of(&**state))
            .or_else(|| self.first_generator(&key))
        else {
            self.annotations.forget(&key);
            self.looked().remove(&key);
            return Next::Done;
        };
        if let Err(next) = context.settled(&owner.uid).await {
            return next;
        }
        if state.is_some() {
            if let Some(rest) = self.rest(&key) {
                return Next::After(rest);
            }
            self.looked().insert(key.clone(), Instant::now());
        }
        let mut snapshot = self.observe(&key, state.as_deref(), context.gates);
        if let Some(state) = &state {
            snapshot.pinning = context.pod_pinning.of(&state.0);
            snapshot.annotations = match self
                .annotations
                .read(&context.client, &key, &state.0, &snapshot.pods)
                .await
            {
                Ok(annotations) => annotations,
                Err(failed) => return Next::Retry(failed.to_string()),
            };
        }
        let Some(state) = &state else {
            self.looked().remove(&key);
            let plan = decide(&snapshot, Timestamp::now());
            return next(&plan, &context.executor.act(&plan, &owner).await, Ok(false));
        };
        let (status, plan) = (status(&snapshot), decide(&snapshot, Timestamp::now()));
        context
            .carry_out(
                &plan,
                &self.states,
                &**state,
                (&state.0.status, |_| Some(status)),
            )
            .await
    }
}

impl PersistentPodStateController {
    fn looked(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Instant>> {
        self.looked.lock()
    }

    /// Why it keeps no records, if its namespace has too many older objects.
    fn beyond(&self, state: &Watched<PersistentPodState>) -> Option<String> {
        let all = self.states.by_index(&by_namespace(), state.namespace());
        let is_beyond = share::is_beyond(&age(state), all.iter().map(|state| age(state)));
        is_beyond.then(|| {
            share::beyond(
                Self::RESOURCE.kind,
                state.namespace(),
                state.name(),
                "keeps no records",
            )
        })
    }

    /// How long until this object may be reconciled again.
    fn rest(&self, key: &Key) -> Option<Duration> {
        let since = self.looked().get(key)?.elapsed();
        BETWEEN_ROUNDS
            .checked_sub(since)
            .filter(|rest| !rest.is_zero())
    }

    /// From the stores alone.
    pub(crate) fn observe(
        &self,
        key: &Key,
        state: Option<&Watched<PersistentPodState>>,
        gates: Gates,
    ) -> Snapshot {
        let generators = self.generators(key);
        let Some(state) = state else {
            return Snapshot {
                generators,
                ..Snapshot::default()
            };
        };
        let (target, pods) = self.target(&state.0, gates);
        let records = || state.0.status.iter().flat_map(|status| &status.pod_states);
        let is_there = |name: &&String| self.pods.get(&key.namespace, name).is_some();
        let present = match target {
            Target::Gone => records()
                .map(|(name, _)| name)
                .filter(is_there)
                .cloned()
                .collect(),
            _ => Default::default(),
        };
        let node = |name: &str| self.nodes.get("", name).map(|node| node.0.clone());
        let mut nodes = by_node(&pods, node);
        nodes.extend(records().filter_map(|(_, record)| {
            Some((record.node_name.as_str().into(), node(&record.node_name)?))
        }));
        Snapshot {
            generators,
            target,
            present,
            nodes,
            pods,
            rival: pod_states::rival(&self.states, &state.0),
            beyond: self.beyond(state),
            predecessor: pod_states::predecessor(&self.states, &state.0),
            state: Some(state.0.clone()),
            ..Snapshot::default()
        }
    }
}

fn wake_for_pod(queue: &Queue<Key>, states: &Store<Watched<PersistentPodState>>, pod: &Pod) {
    let metadata = &pod.metadata;
    let by_name = set_and_ordinal(&metadata.name).map(|(set, _)| set);
    let Some(name) = metadata.controller().map(|owner| &*owner.name).or(by_name) else {
        return;
    };
    wake_for_target(queue, states, &metadata.namespace, name);
}

fn wake_for_workload(queue: &Queue<Key>, states: &Store<Watched<PersistentPodState>>, key: &Key) {
    queue.add(key.clone());
    wake_for_target(queue, states, &key.namespace, &key.name);
}

fn wake_for_target(
    queue: &Queue<Key>,
    states: &Store<Watched<PersistentPodState>>,
    namespace: &str,
    name: &str,
) {
    for state in states
        .by_index(&STATES_BY_TARGET, name)
        .iter()
        .filter(|state| state.namespace() == namespace)
    {
        queue.add(Key::of(&**state));
    }
}

impl Explains for PersistentPodStateController {
    type Object = PersistentPodState;
    const OF_BUDGETS: bool = false;

    /// Pod by pod, where it was and how the next one is pinned. This replaces the list of causes
    /// that the object waits for.
    async fn explain(&self, look: &Look<'_>, _stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(state) = self.states.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let key = Key::new(&look.namespaces.explained, look.name);
        let mut snapshot = self.observe(&key, Some(&state), look.gates);
        let settings = look.settings;
        let pinning = PodPinning::new(
            settings.pod_pinning,
            settings.pod_pinning_fail_closed,
            protected_namespaces(&settings.namespace, &settings.protected_namespaces),
            Arc::default(),
            None,
        );
        snapshot.pinning = match pinning.of(&state.0) {
            // Only a running controller knows what it has written.
            Pinning::NotYet | Pinning::TooMany => Pinning::Webhook,
            known => known,
        };
        let mut plan = decide(&snapshot, Timestamp::now());
        plan.waiting = explain(&snapshot);
        Ok(Explained {
            heading: "Pods:",
            ..look.explained::<Self>(plan, &Value::Null, &Value::Null)
        })
    }
}
