//! Pods whose containers are not those that their records name: another writer changed them, or a tenant wrote the records. What
//! they have is told, and left to whoever did it.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::SidecarContainer;
use berth_workload::pod::Pod;
use serde::Deserialize;

use super::names::{HASH, INJECTED_LIST, IS_INJECTED};
use super::on_pod::Known;
use super::on_pod::{image, in_pod};
use super::sidecar::{self, List, name};
use super::{Snapshot, hot, on_pod};

/// What a revision says of containers.
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

/// The containers of revisions that records name, each read once.
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

/// Characters of a text that somebody else wrote, in a message.
const SHOWN: usize = 100;

/// The pods with containers that are not those of the revision that their record names, and those that list the SidecarSet and have no
/// record of it; each with how they differ. A record of a revision that is gone is no drift.
pub(super) fn drifted(snapshot: &Snapshot) -> Vec<(&Arc<Pod>, String)> {
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
                "annotation {INJECTED_LIST} lists SidecarSet {}, of which annotation {HASH} has no record: somebody else wrote the one or \
                 the other; replace the pod",
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
            "{what} by {record}: somebody else wrote the one or the other; replace the pod"
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
            // Tenants write these names, and what nobody knows takes no room.
            snapshot
                .revisions
                .iter()
                .find(|known| *known.metadata.name == **revision)?;
            self.0.insert(revision.clone(), read(revision));
        }
        self.0.get(revision)?.as_ref()
    }
}

/// How the pod differs from what it should have of a container.
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
    // What became the empty one at the end of an upgrade has the empty image of the SidecarSet as it was by then.
    let latest =
        sidecar::lasting(&snapshot.set.spec).find(|(latest, _)| name(latest) == name(container));
    let latest = latest.map_or("", |(latest, _)| {
        &latest.upgrade_strategy.hot_upgrade_empty_image
    });
    has_another(pod, (&pair.empty, list), &[&pair.empty_image, latest])
}

/// What is said of a container whose image is none of these.
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
mod tests {
    use serde_json::json;

    use super::super::tests::{hot_pod, hot_snapshot, pod, snapshot};
    use super::*;

    fn said(snapshot: &Snapshot) -> Vec<String> {
        drifted(snapshot)
            .into_iter()
            .map(|(pod, why)| format!("{}: {why}", pod.metadata.name))
            .collect()
    }

    #[test]
    fn a_pod_has_drifted_if_an_image_is_not_that_of_the_revision_of_its_record() {
        let record = |hash: &str, revision: &str| {
            json!(json!({"log": {"hash": hash, "controllerRevision": revision}}).to_string())
        };
        for (what, hash, revision, image, drifts) in [
            ("the latest", "h2", "log-0", "agent:2", false),
            (
                "another in place of the latest",
                "h2",
                "log-0",
                "evil:1",
                true,
            ),
            ("that of an older revision", "h1", "log-1", "agent:2", false),
            (
                "another in place of an older one",
                "h1",
                "log-1",
                "agent:1",
                true,
            ),
            (
                "of a revision that nobody knows",
                "h1",
                "log-0",
                "evil:1",
                false,
            ),
        ] {
            let mut pod = pod("a", "h2", true);
            pod["metadata"]["annotations"][HASH] = record(hash, revision);
            pod["spec"]["containers"][1]["image"] = json!(image);
            let found = said(&snapshot(&json!({}), &[pod]));
            assert_eq!(found.len(), usize::from(drifts), "{what}: {found:?}");
            assert!(
                found
                    .iter()
                    .all(|said| said.contains("agent has the image \"") && said.contains(image)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_pod_whose_records_are_forged_has_drifted() {
        let mut bare = pod("a", "h2", true);
        bare["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .truncate(1);
        let found = said(&snapshot(&json!({}), &[bare]));
        assert!(found[0].contains("has no container agent"), "{found:?}");
        let mut odd = pod("a", "h2", true);
        for record in [json!("{"), json!("{}")] {
            odd["metadata"]["annotations"][HASH] = record;
            let found = said(&snapshot(&json!({}), &[odd.clone()]));
            assert!(
                found[0].contains("lists SidecarSet log, of which annotation"),
                "{found:?}"
            );
        }
        odd["metadata"]["annotations"] = json!({INJECTED_LIST: "log"});
        assert_eq!(said(&snapshot(&json!({}), &[odd.clone()])).len(), 1);
        // Without a list only a record says that the pod has the containers.
        odd["metadata"]["annotations"] = json!({});
        assert!(said(&snapshot(&json!({}), &[odd])).is_empty());
    }

    #[test]
    fn of_two_hot_upgraded_containers_the_working_one_has_the_image_and_the_other_is_empty_or_on_its_way()
     {
        let found = |images: [&str; 2], working: &str| {
            said(&hot_snapshot(
                &[hot_pod(images, "h2", working, [true, true])],
                json!({}),
            ))
            .len()
        };
        assert_eq!(found(["mesh:2", "empty:1"], "mesh-1"), 0);
        assert_eq!(found(["mesh:3", "empty:1"], "mesh-1"), 1);
        assert_eq!(found(["mesh:2", "evil:1"], "mesh-1"), 1);
        assert_eq!(
            found(["mesh:1", "mesh:2"], "mesh-2"),
            0,
            "the old one works until the new one does"
        );
    }
}
