//! The PersistentPodState controller: records where pods are, and makes what StatefulSets ask for.

use std::sync::Arc;

use berth_api::names::GROUP;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_kinds::persistentpodstate::{Snapshot, Target, decide, status};
use berth_kinds::statefulset::ordinals;
use berth_runtime::driver::Next;
use berth_runtime::executor::Owner;
use berth_runtime::object::owner_key;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Index, Key, Object, Resource, Store, object};
use berth_workload::gates::{Gate, Gates};
use berth_workload::node::Node;
use berth_workload::ordinals::set_and_ordinal;
use berth_workload::pod::Pod;
use jiff::Timestamp;

use crate::acting::{Acting, next};
use crate::change::each;
use crate::controllers::Controller;
use crate::podset::by_node;
use crate::reads::{Read, Reader};
use crate::watched::{CustomResource, Watched};

/// By the name of their workload.
const BY_TARGET: Index<Watched<PersistentPodState>> =
    Index::new("target", |state| Some(&*state.0.spec.target_ref.name));

/// What a decision about a PersistentPodState is made of.
pub(crate) struct Reads {
    states: Arc<Store<Watched<PersistentPodState>>>,
    sets: Arc<Store<Watched<StatefulSet>>>,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Watched<Node>>>,
}

impl CustomResource for PersistentPodState {
    const RESOURCE: Resource = object::PERSISTENT_POD_STATES;
}

impl Read for Watched<PersistentPodState> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[BY_TARGET])
    }
}

impl Controller for Reads {
    const RESOURCE: Resource = object::PERSISTENT_POD_STATES;
    const NAME: &'static str = "persistentpodstate";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self { states: reader.read(), sets: reader.read(), pods: reader.read(), nodes: reader.read() }
    }

    /// Wakes a PersistentPodState when it, its StatefulSet, or a pod of that changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        let (to, acting) = (queue.clone(), acting.clone());
        self.states.on_change(move |change| {
            if let Change::Deleted { old } = change {
                acting.expectations.forget(old.uid());
            }
            each(change, |state| to.add(Key::of(state)));
        });
        let (to, states) = (queue.clone(), self.states.clone());
        self.sets.on_change(move |change| {
            each(change, |set| {
                to.add(Key::of(set));
                wake_for_set(&to, &states, set.namespace(), set.name());
            });
        });
        let (to, states) = (queue.clone(), self.states.clone());
        self.pods.on_change(move |change| {
            each(change, |pod| {
                if let Some((set, _)) = set_and_ordinal(&pod.metadata.name) {
                    wake_for_set(&to, &states, &pod.metadata.namespace, set);
                }
            });
        });
    }

    /// One round for one name: of a PersistentPodState, of a StatefulSet that may ask for one, or of both.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let state = self.states.get(&key.namespace, &key.name);
        let generator = self.sets.get(&key.namespace, &key.name);
        let owner = match (&state, &generator) {
            (Some(state), _) => Owner::of(&**state),
            (None, Some(set)) => Owner::of(&**set),
            (None, None) => return Next::Done,
        };
        if let Err(next) = acting.settled(&owner.uid).await {
            return next;
        }
        let snapshot = self.observe(state.as_deref(), generator.as_deref(), acting.gates);
        let plan = decide(&snapshot, Timestamp::now());
        match &state {
            Some(state) => {
                acting.carry_out(&plan, &self.states, &**state, (&state.0.status, |_| Some(status(&snapshot)))).await
            }
            None => next(&plan, &acting.executor.act(&plan, &owner).await, Ok(false)),
        }
    }
}

impl Reads {
    fn observe(
        &self,
        state: Option<&Watched<PersistentPodState>>,
        generator: Option<&Watched<StatefulSet>>,
        gates: Gates,
    ) -> Snapshot {
        let target = state.filter(|state| is_of_set(&state.0));
        let set = target.and_then(|state| self.sets.get(state.namespace(), &state.0.spec.target_ref.name));
        let pods = set.as_ref().map(|set| self.pods.owned_by(&owner_key(&**set))).unwrap_or_default();
        Snapshot {
            state: state.map(|state| state.0.clone()),
            generator: generator.map(|set| set.0.clone()),
            target: match (target, &set) {
                (None, _) => Target::Unknown,
                (Some(_), None) => Target::Gone,
                // None of a spec that is refused.
                (Some(_), Some(set)) => {
                    Target::Set(ordinals(&set.0.spec, gates.has(Gate::StatefulSetStartOrdinal)).ok())
                }
            },
            nodes: by_node(&pods, |name| self.nodes.get("", name).map(|node| node.0.clone())),
            pods,
        }
    }
}

/// The one that keeps the records of this set: the oldest, where there are several.
pub(crate) fn of_set(
    states: &Store<Watched<PersistentPodState>>,
    namespace: &str,
    set: &str,
) -> Option<Arc<PersistentPodState>> {
    let all = states.by_index(&BY_TARGET, set);
    let ours = all.iter().filter(|state| state.namespace() == namespace && is_of_set(&state.0));
    let age = |state: &&Arc<Watched<PersistentPodState>>| {
        let metadata = &state.0.metadata;
        (metadata.creation_timestamp.as_ref().map(|time| time.0), metadata.name.clone())
    };
    ours.min_by_key(age).map(|state| state.0.clone())
}

/// Is it of a StatefulSet of ours?
fn is_of_set(state: &PersistentPodState) -> bool {
    let target = &state.spec.target_ref;
    target.kind == object::STATEFUL_SETS.kind && target.api_version.split('/').next() == Some(GROUP)
}

fn wake_for_set(queue: &Queue<Key>, states: &Store<Watched<PersistentPodState>>, namespace: &str, set: &str) {
    for state in states.by_index(&BY_TARGET, set).iter().filter(|state| state.namespace() == namespace) {
        queue.add(Key::of(&**state));
    }
}
