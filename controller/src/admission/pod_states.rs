//! Which PersistentPodState keeps the records of a workload.

use std::sync::Arc;

use berth_api::names::GROUP;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_runtime::{Object, Store, object};
use berth_workload::objects::owner::group;
use jiff::Timestamp;

use crate::stores::custom_resources::STATES_BY_TARGET;
use crate::stores::watched::Watched;

/// The kind of workload that an object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// An Advanced StatefulSet.
    Ours,
    /// Kubernetes' own.
    Native,
    /// A kind of another controller, or an unknown one.
    Other,
}

impl TargetKind {
    pub(crate) fn of(state: &PersistentPodState) -> Self {
        let target = &state.spec.target_ref;
        match (group(&target.api_version), &*target.kind) {
            (GROUP, "StatefulSet") => Self::Ours,
            ("apps", "StatefulSet") => Self::Native,
            _ => Self::Other,
        }
    }
}

/// Group, kind and name must match; the version does not matter.
fn is_of(state: &PersistentPodState, (api_version, kind, name): (&str, &str, &str)) -> bool {
    let target = &state.spec.target_ref;
    target.name == name && target.kind == kind && group(&target.api_version) == group(api_version)
}

/// The object that keeps the records of this workload: the oldest, if there are several.
pub(crate) fn of_workload(
    states: &Store<Watched<PersistentPodState>>,
    namespace: &str,
    workload: (&str, &str, &str),
) -> Option<Arc<PersistentPodState>> {
    let all = states.by_index(&STATES_BY_TARGET, workload.2);
    let ours = all
        .iter()
        .filter(|state| state.namespace() == namespace && is_of(&state.0, workload));
    ours.min_by_key(|state| age(state))
        .map(|state| state.0.clone())
}

/// The object that keeps the records of this Advanced StatefulSet.
pub(crate) fn of_set(
    states: &Store<Watched<PersistentPodState>>,
    namespace: &str,
    set: &str,
) -> Option<Arc<PersistentPodState>> {
    of_workload(
        states,
        namespace,
        (
            &object::STATEFUL_SETS.api_version(),
            object::STATEFUL_SETS.kind,
            set,
        ),
    )
}

/// The name of the object that counts in place of this one.
pub(crate) fn rival(
    states: &Store<Watched<PersistentPodState>>,
    state: &PersistentPodState,
) -> Option<String> {
    let target = &state.spec.target_ref;
    let namespace = state.metadata.namespace.as_deref().unwrap_or_default();
    let first = of_workload(
        states,
        namespace,
        (&target.api_version, &target.kind, &target.name),
    )?;
    first
        .metadata
        .name
        .clone()
        .filter(|_| first.metadata.uid != state.metadata.uid)
}

/// The object of a StatefulSet of the same name, Kubernetes' own or ours, whose pods this object's
/// workload may have taken over.
pub(crate) fn predecessor(
    states: &Store<Watched<PersistentPodState>>,
    state: &PersistentPodState,
) -> Option<Arc<PersistentPodState>> {
    let other = match TargetKind::of(state) {
        TargetKind::Ours => &object::NATIVE_STATEFUL_SETS,
        TargetKind::Native => &object::STATEFUL_SETS,
        TargetKind::Other => return None,
    };
    let namespace = state.metadata.namespace.as_deref().unwrap_or_default();
    of_workload(
        states,
        namespace,
        (
            &other.api_version(),
            other.kind,
            &state.spec.target_ref.name,
        ),
    )
}

/// The age of an object: in a namespace the older ones count first.
pub(crate) fn age(state: &Watched<PersistentPodState>) -> (Option<Timestamp>, String) {
    (
        state
            .0
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        state.name().to_owned(),
    )
}
