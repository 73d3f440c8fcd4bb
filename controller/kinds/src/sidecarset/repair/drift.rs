//! Pods whose containers differ from those in their records: another writer changed them, or a
//! tenant wrote the records. The status reports them, and the controller leaves them as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::SidecarContainer;
use berth_workload::objects::pod::Pod;
use serde::Deserialize;

use crate::sidecarset::names::{HASH, INJECTED_LIST, IS_INJECTED};
use crate::sidecarset::on_pod::Known;
use crate::sidecarset::on_pod::{image, in_pod};
use crate::sidecarset::sidecar::{self, List, name};
use crate::sidecarset::update::hot;
use crate::sidecarset::{Snapshot, on_pod};

/// The data of a revision about containers.
#[derive(Deserialize)]
struct Data {
    spec: Kept,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    containers: Option<Vec<SidecarContainer>>,
    init_containers: Option<Vec<SidecarContainer>>,
}

/// The containers that run beside the pod's own, each with its list.
type Lasting = Vec<(SidecarContainer, List)>;

/// The containers of the revisions that records name. Each revision is read once.
#[derive(Default)]
struct Forms(BTreeMap<String, Option<Lasting>>);

impl Kept {
    fn lasting(self) -> Lasting {
        let of = |list| move |container| (container, list);
        let init = self
            .init_containers
            .into_iter()
            .flatten()
            .map(of(List::Init));
        let all = init.chain(self.containers.into_iter().flatten().map(of(List::Main)));
        all.filter(|(container, list)| sidecar::is_lasting(container, *list))
            .collect()
    }
}

/// Most characters of a foreign text in a message.
const SHOWN: usize = 100;

/// The pods with containers that differ from those of the revision in their record, and those that
/// list the SidecarSet and have no record of it; each with the difference. A record of a revision
/// that is gone is no drift.
pub(in crate::sidecarset) fn drifted(snapshot: &Snapshot) -> Vec<(&Arc<Pod>, String)> {
    let mut forms = Forms::default();
    let injected = snapshot
        .pods
        .iter()
        .filter(|pod| pod.is_active() && on_pod::is_injected(pod, snapshot.name()));
    injected
        .filter_map(|pod| Some((pod, forms.difference(snapshot, pod)?)))
        .collect()
}

impl Forms {
    fn difference(&mut self, snapshot: &Snapshot, pod: &Pod) -> Option<String> {
        let Some(record) = on_pod::record(pod, snapshot.name()) else {
            return Some(format!(
                "annotation {INJECTED_LIST} lists SidecarSet {}, but annotation {HASH} has no record of it: another writer changed one of \
                 the annotations; replace the pod",
                snapshot.name()
            ));
        };
        let difference = |(container, list): (&SidecarContainer, List)| {
            difference(snapshot, container, list, pod)
        };
        let what = if record.hash == snapshot.hashes.hash {
            sidecar::lasting(&snapshot.set.spec).find_map(difference)?
        } else {
            let of_revision = self.of(snapshot, &record)?.iter();
            of_revision
                .map(|(container, list)| (container, *list))
                .find_map(difference)?
        };
        let record = format!(
            "the record of SidecarSet {} in its annotations",
            snapshot.name()
        );
        Some(format!(
            "{what} by {record}: another writer changed the pod or its record; replace the pod"
        ))
    }

    fn of(&mut self, snapshot: &Snapshot, record: &Known) -> Option<&Lasting> {
        let read = |name: &str| {
            let revision = snapshot
                .revisions
                .iter()
                .find(|known| *known.metadata.name == *name)?;
            Some(revision.data.read::<Data>()?.spec.lasting())
        };
        let revision = &record.controller_revision;
        if !self.0.contains_key(revision) {
            // Tenants write these names, so a name of no revision must take no memory.
            snapshot
                .revisions
                .iter()
                .find(|known| *known.metadata.name == **revision)?;
            self.0.insert(revision.clone(), read(revision));
        }
        self.0.get(revision)?.as_ref()
    }
}

/// The difference between the pod's container and the one that it should have.
fn difference(
    snapshot: &Snapshot,
    container: &SidecarContainer,
    list: List,
    pod: &Pod,
) -> Option<String> {
    let wanted = image(container);
    if !sidecar::is_hot(container, list) {
        return has_another(pod, (name(container), list), &[wanted]);
    }
    let pair = hot::Pair::of(container, list, pod);
    let working = has_another(pod, (&pair.working, list), &[wanted]);
    if working.is_some() || hot::is_under_way(pod, &pair) {
        return working;
    }
    // A container that got the empty image at the end of an upgrade has the empty image of the
    // SidecarSet's spec at that time.
    let latest =
        sidecar::lasting(&snapshot.set.spec).find(|(latest, _)| name(latest) == name(container));
    let latest = latest.map_or("", |(latest, _)| {
        &latest.upgrade_strategy.hot_upgrade_empty_image
    });
    has_another(pod, (&pair.empty, list), &[&pair.empty_image, latest])
}

/// The message for a container whose image is none of these.
fn has_another(pod: &Pod, (container, list): (&str, List), wanted: &[&str]) -> Option<String> {
    let Some(has) = in_pod(pod, container, list) else {
        return Some(format!(
            "has no container {container}, which is one of its containers"
        ));
    };
    if !has.env.is_injected {
        return Some(format!(
            "its container {container} lacks the variable {IS_INJECTED}, so no SidecarSet brought it"
        ));
    }
    if wanted.contains(&&*has.image) {
        return None;
    }
    let shown: String = has.image.chars().take(SHOWN).collect();
    Some(format!(
        "its container {container} has the image {shown:?}, which is {:?}",
        wanted[0]
    ))
}

#[cfg(test)]
mod tests;
