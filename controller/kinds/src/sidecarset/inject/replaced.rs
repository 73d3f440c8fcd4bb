//! Containers of pods that a SidecarSet's containers of the same name replaced when the pods were
//! created. The pod records them, because only the client that created the pod saw the warning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::plan::Event;

use crate::sidecarset::names::REPLACED;
use crate::sidecarset::{Snapshot, on_pod};

/// The most bytes of the annotation that the controller reads, and the most SidecarSets and
/// containers that it names.
const MOST_BYTES: usize = 8 * 1024;
const MOST: usize = 16;

/// By name of a SidecarSet: the pod's own containers that it replaced.
pub(in crate::sidecarset) type Replaced = BTreeMap<String, BTreeSet<String>>;

/// The annotation of a pod with the entries of these SidecarSets, and the new entries.
pub(in crate::sidecarset) fn noted<'a>(
    text: Option<&str>,
    sets: impl Iterator<Item = &'a str>,
    new: Replaced,
) -> Option<String> {
    let mut all = read(text.unwrap_or_default());
    let sets: BTreeSet<_> = sets.collect();
    all.retain(|set, _| sets.contains(set.as_str()));
    for (set, names) in new {
        all.entry(set).or_default().extend(names);
    }
    let all: Replaced = all
        .into_iter()
        .take(MOST)
        .map(|(set, names)| (set, names.into_iter().take(MOST).collect()))
        .collect();
    (!all.is_empty()).then(|| serde_json::to_string(&all).unwrap_or_default())
}

fn read(text: &str) -> Replaced {
    let read = Some(text)
        .filter(|text| text.len() <= MOST_BYTES)
        .and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}

/// The pods in which containers of the SidecarSet replaced their own, according to their
/// annotation, each with the names.
pub(in crate::sidecarset) fn replaced(snapshot: &Snapshot) -> Vec<(&Arc<Pod>, String)> {
    let name = snapshot.name();
    let of_pod = |pod: &Pod| {
        let names = read(pod.metadata.annotation(REPLACED)?).remove(name)?;
        let names: Vec<_> = names
            .iter()
            .take(MOST)
            .map(|name| name.chars().take(63).collect::<String>())
            .collect();
        (!names.is_empty() && on_pod::is_injected(pod, name)).then(|| names.join(", "))
    };
    let active = snapshot.pods.iter().filter(|pod| pod.is_active());
    active.filter_map(|pod| Some((pod, of_pod(pod)?))).collect()
}

/// The line that `explain` prints for one pod.
pub(in crate::sidecarset) fn words(names: &str) -> String {
    format!(
        "has the SidecarSet's container {names} in place of its own of that name: rename one of the two"
    )
}

/// The event if more pods have them than the status says.
pub(in crate::sidecarset) fn event(snapshot: &Snapshot) -> Option<Event> {
    let all = replaced(snapshot);
    let reported = snapshot
        .set
        .status
        .as_ref()
        .and_then(|status| status.injection.as_ref())
        .map_or(0, |reported| reported.replaced);
    let ((pod, names), count) = (all.first()?, i32::try_from(all.len()).unwrap_or(i32::MAX));
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let more = if count > 1 {
        format!(", and so have {} more", count - 1)
    } else {
        String::new()
    };
    let message = format!(
        "SidecarSet {}: pod {namespace}/{name} has the SidecarSet's container {names} in place of its own of that name{more}: rename one of the two",
        snapshot.name()
    );
    (count > reported).then_some(Event::warning("ContainersReplaced", message))
}

#[cfg(test)]
mod tests;
