//! Environment variables of containers that read labels and annotations of their pod.
//!
//! The kubelet reads them when it creates a container, and does not restart a container when they
//! change. So the NodeImage asks the node's daemon for the values that a container was created
//! with, and the daemon stops a container with old values. Only the daemon can prove such an
//! update, because a pod's status does not show these variables.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::env_hash;
use berth_api::fields::inplace::{
    RuntimeContainerHashes, RuntimeContainerMeta, RuntimeContainerMetaSet,
};
use berth_api::names::{self, annotation};
use berth_api::v1beta1::nodeimage::InspectEnv;
use serde_json::Value;

use super::decision::{UpdateDecision, ValuesDecision, without_scheme};
use super::state::State;
use crate::objects::node::image::{Created, NodeFacts};
use crate::objects::pod::Pod;
use crate::plan::{Action, PodPatch};

pub use crate::objects::patch::pod::Env;

/// Set by OpenKruise's SidecarSets when they upgrade a container; it restarts nothing.
const NEVER_RESTART: [&str; 2] = [
    names::env::SIDECARSET_VERSION,
    names::env::SIDECARSET_VERSION_ALT,
];

/// The variables of a template that read their pod's labels and annotations, by container.
#[derive(Debug)]
pub(super) struct Readers(BTreeMap<String, BTreeMap<String, Source>>);

impl Readers {
    pub(super) fn new(template: &Value) -> Self {
        let containers = template["spec"]["containers"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let all = containers.iter().map(|container| {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            (name, sources(container))
        });
        Self(all.filter(|(_, sources)| !sources.is_empty()).collect())
    }

    /// The variables that read labels or annotations which the patch changes.
    pub(super) fn of(&self, patch: &PodPatch) -> Env {
        let all = self.0.iter().map(|(container, sources)| {
            let wanted = sources
                .iter()
                .map(|(variable, source)| (variable.clone(), source.wanted(patch)));
            (container.clone(), wanted.collect())
        });
        let env = Env(all.collect());
        if env.changes() { env } else { Env::default() }
    }
}

/// The source of a variable.
#[derive(Debug)]
enum Source {
    Label(String),
    Annotation(String),
}

impl Source {
    /// `metadata.labels['key']` or `metadata.annotations['key']`.
    fn parse(path: &str) -> Option<Self> {
        let key = |field: &str| {
            path.strip_prefix(field)?
                .strip_prefix("['")?
                .strip_suffix("']")
                .map(str::to_owned)
        };
        key("metadata.labels")
            .map(Self::Label)
            .or_else(|| key("metadata.annotations").map(Self::Annotation))
    }

    /// The hash of the value in the patch; empty if the patch does not set it. A removed key leaves
    /// an empty value.
    fn wanted(&self, patch: &PodPatch) -> String {
        let changed = match self {
            Self::Label(key) => patch.labels.get(key),
            Self::Annotation(key) => patch.annotations.get(key),
        };
        changed.map_or_else(String::new, |value| {
            env_hash::of_value(value.as_deref().unwrap_or_default())
        })
    }
}

/// The variables of a container that read labels and annotations of its pod. Of two with one name
/// the last one counts.
fn sources(container: &Value) -> BTreeMap<String, Source> {
    let mut sources = BTreeMap::new();
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default();
        let path = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        match path
            .and_then(Source::parse)
            .filter(|_| !NEVER_RESTART.contains(&name))
        {
            Some(source) => sources.insert(name.to_owned(), source),
            None => sources.remove(name),
        };
    }
    sources
}

/// The variables and restarts that the NodeImage asks the node's daemon to check for the pod. Empty
/// if no update needs a proof.
pub fn question(pod: &Pod) -> Vec<InspectEnv> {
    let asks =
        |state: &State| !state.is_settled() && (state.env.changes() || !state.restarts.is_empty());
    let Some(mut state) = State::of(pod).filter(asks) else {
        return Vec::new();
    };
    if !state.env.changes() {
        state.env = Env::default();
    }
    let image = |name: &str| {
        pod.spec
            .containers
            .iter()
            .find(|c| &*c.name == name)
            .map(|c| c.image.to_string())
    };
    let update = update_of(&state);
    let State {
        env: Env(mut values),
        mut restarts,
        ..
    } = state;
    let containers: BTreeSet<String> = values.keys().chain(restarts.keys()).cloned().collect();
    let of = |container: String| {
        Some(InspectEnv {
            image: image(&container)?,
            update: update.clone(),
            values: values.remove(&container).unwrap_or_default(),
            container_id: restarts.remove(&container).unwrap_or_default(),
            container,
        })
    };
    containers.into_iter().filter_map(of).collect()
}

/// The identity of the update, which differs from the ones before and after.
fn update_of(state: &State) -> String {
    state
        .update_timestamp
        .map_or_else(String::new, |time| time.to_string())
}

/// Checks the variables by the daemon's report.
pub(super) fn judge(pod: &Pod, state: &State, node: &NodeFacts) -> ValuesDecision {
    let update = update_of(state);
    let mut decision = ValuesDecision::NotNeeded;
    for name in state.env.containers() {
        if !pod.spec.containers.iter().any(|c| *c.name == **name) {
            continue;
        }
        // A report about an earlier update does not count, because the daemon may be about to stop
        // the container for it.
        let created = node
            .created
            .get(name)
            .filter(|created| created.update == update);
        let Some(created) = created else {
            return ValuesDecision::NeedsDaemon(format!(
                "the pod's status does not tell what variables container {name} has"
            ));
        };
        decision = match (decision, container(pod, name, &state.env.0[name], created)) {
            (ValuesDecision::Wait(why), _) => ValuesDecision::Wait(why),
            (_, one) => one,
        };
    }
    decision
}

fn container(
    pod: &Pod,
    name: &str,
    values: &BTreeMap<String, String>,
    created: &Created,
) -> ValuesDecision {
    let differs = |(variable, wanted): &(&String, &String)| {
        !wanted.is_empty()
            && created
                .env
                .get(*variable)
                .is_none_or(|hash| hash != *wanted)
    };
    if let Some((variable, _)) = values.iter().find(differs) {
        return ValuesDecision::Wait(format!(
            "container {name} was created with another {variable} than the pod's metadata has now; the daemon restarts it"
        ));
    }
    // Until the kubelet reports the new container, `ready` in the status is about the old one.
    let reported_id = pod
        .container_status(name)
        .map_or("", |status| without_scheme(&status.container_id));
    if reported_id == without_scheme(&created.container_id) {
        ValuesDecision::Proven
    } else {
        ValuesDecision::Wait(format!(
            "the kubelet has not reported the new container {name} yet"
        ))
    }
}

/// The decision on images and variables together. The daemon starts its check while the kubelet is
/// still busy.
pub(super) fn joined(images: UpdateDecision, env: ValuesDecision) -> UpdateDecision {
    match (images, env) {
        (decision, ValuesDecision::NotNeeded) => decision,
        (UpdateDecision::Proven { moved_tags, .. }, ValuesDecision::Proven) => {
            UpdateDecision::Proven {
                verified_by: "node",
                moved_tags,
            }
        }
        (decision, ValuesDecision::Proven) => decision,
        (decision @ UpdateDecision::Resize(_), _) => decision,
        (_, ValuesDecision::NeedsDaemon(why)) => UpdateDecision::NeedsDaemon(why),
        (UpdateDecision::NeedsDaemon(why), ValuesDecision::Wait(_)) => {
            UpdateDecision::NeedsDaemon(why)
        }
        (UpdateDecision::Proven { .. }, ValuesDecision::Wait(why))
        | (UpdateDecision::Wait(why), ValuesDecision::Wait(_)) => UpdateDecision::Wait(why),
    }
}

/// Adds the annotation with the containers' creation data to the write that ends such an update.
/// Users of OpenKruise read it, and so does its controller if it takes over.
pub fn report(action: &mut Action, pod: &Pod, state: &State, node: &NodeFacts) {
    let (Action::PatchPod { patch, .. } | Action::PatchPodStatus { patch, .. }) = action else {
        return;
    };
    if !state.env.changes() {
        return;
    }
    let none = env_hash::of_all(&BTreeMap::new());
    let described = pod.spec.containers.iter().filter_map(|container| {
        let created = node.created.get(&*container.name)?;
        let status = pod.container_status(&container.name)?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(RuntimeContainerMeta {
            name: container.name.to_string(),
            container_id: created.container_id.clone(),
            restart_count: created.attempt.unwrap_or(status.restart_count),
            hashes: RuntimeContainerHashes {
                plain_hash: hex(&created.hash).unwrap_or(0),
                extracted_env_from_metadata_hash: hex(&created.env_hash).unwrap_or(none.into()),
            },
        })
    });
    let meta = RuntimeContainerMetaSet {
        containers: described.collect(),
    };
    // Names and numbers always serialise.
    let text = serde_json::to_string(&meta).unwrap_or_default();
    patch
        .annotations
        .insert(annotation::RUNTIME_CONTAINERS_META.into(), Some(text));
}

#[cfg(test)]
mod tests;
