//! The images and hashes that the containers of pods were created from.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1beta1::nodeimage::{InspectPod, InspectedContainer, InspectedPod};
use jiff::Timestamp;
use k8s_cri::v1::{Container, Image};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::runtime::container_hash::{self, container_hash};
use berth_api::image::Reference;

/// The label by which the kubelet marks a container with its pod's uid.
pub const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// The label with its pod's namespace.
pub const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
/// The label with its pod's name.
pub const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";

/// The runtime's data about containers and images.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The runtime's name as it gives it: the scheme of container ids.
    pub runtime: &'a str,
    /// The containers, at least those of the pods in question.
    pub containers: &'a [Container],
    /// All images.
    pub images: &'a [Image],
    /// Further names that pods may use, as they spell them.
    pub names: &'a [String],
}

/// Reports, for each pod in the order of `pods`, what the newest container of each name was created
/// from. The reports have no times yet.
pub fn inspect(pods: &[InspectPod], facts: Facts<'_>) -> Vec<InspectedPod> {
    let mut seen = BTreeSet::new();
    let of = |pod: &InspectPod| {
        let containers = containers_of(pod, facts);
        InspectedPod {
            uid: pod.uid.clone(),
            containers,
            observed_at: None,
        }
    };
    pods.iter()
        .filter(|pod| seen.insert(&pod.uid))
        .map(of)
        .collect()
}

/// Sets the times. An answer that is the same as in `before` keeps its time.
pub fn timed(
    mut answers: Vec<InspectedPod>,
    before: &[InspectedPod],
    now: Timestamp,
) -> Vec<InspectedPod> {
    for answer in &mut answers {
        let same = before
            .iter()
            .find(|b| b.uid == answer.uid && b.containers == answer.containers);
        answer.observed_at = same.map_or(Some(Time(now)), |same| same.observed_at.clone());
    }
    answers
}

/// Whether the kubelet made the container for the pod of this namespace, name and uid. All three
/// must match, because admission policies see only the namespace, and a uid may be that of another
/// namespace's pod.
pub fn is_of_pod(container: &Container, (namespace, name, uid): (&str, &str, &str)) -> bool {
    let has = |label: &str, wanted: &str| {
        container
            .labels
            .get(label)
            .is_some_and(|value| value == wanted)
    };
    !uid.is_empty()
        && has(POD_UID_LABEL, uid)
        && has(POD_NAME_LABEL, name)
        && has(POD_NAMESPACE_LABEL, namespace)
}

fn containers_of(pod: &InspectPod, facts: Facts<'_>) -> Vec<InspectedContainer> {
    let mut newest: BTreeMap<&str, &Container> = BTreeMap::new();
    for container in facts.containers {
        let Some(metadata) = &container.metadata else {
            continue;
        };
        if !is_of_pod(container, (&pod.namespace, &pod.name, &pod.uid)) {
            continue;
        }
        let entry = newest.entry(&metadata.name).or_insert(container);
        // The kubelet counts the attempts; a clock may have been set back.
        let age = |c: &Container| (c.metadata.as_ref().map_or(0, |m| m.attempt), c.created_at);
        if age(container) > age(entry) {
            *entry = container;
        }
    }
    newest
        .into_iter()
        .map(|(name, container)| describe(name, container, facts))
        .collect()
}

fn describe(name: &str, container: &Container, facts: Facts<'_>) -> InspectedContainer {
    let hash = container
        .annotations
        .get(container_hash::ANNOTATION)
        .cloned()
        .unwrap_or_default();
    let said = container
        .image
        .as_ref()
        .map_or("", |image| image.user_specified_image.as_str());
    let image = match said {
        "" => recognise(name, &hash, &container.image_ref, facts).unwrap_or_default(),
        said => said.to_owned(),
    };
    InspectedContainer {
        name: name.to_owned(),
        container_id: format!("{}://{}", facts.runtime, container.id),
        image,
        image_id: container.image_ref.clone(),
        hash,
        attempt: container
            .metadata
            .as_ref()
            .and_then(|metadata| i32::try_from(metadata.attempt).ok()),
        created_at: Timestamp::from_nanosecond(container.created_at.into())
            .ok()
            .map(whole_seconds)
            .map(Time),
        ..InspectedContainer::default()
    }
}

/// Finds the image name with the kubelet's hash. The names of the container's own image come first,
/// so that of names with the same hash the likely one is found.
fn recognise(name: &str, hash: &str, image_ref: &str, facts: Facts<'_>) -> Option<String> {
    if hash.is_empty() {
        return None;
    }
    let own =
        |image: &&Image| image.id == image_ref || image.repo_digests.iter().any(|d| d == image_ref);
    let (own, others): (Vec<&Image>, Vec<&Image>) = facts.images.iter().partition(own);
    let pinned = own.iter().flat_map(|image| pinned_tags(image));
    let listed = own
        .iter()
        .chain(&others)
        .flat_map(|image| image.repo_tags.iter().chain(&image.repo_digests))
        .cloned();
    let mut spellings = (facts.names.iter().cloned()).chain(
        pinned
            .chain(listed)
            .flat_map(|reference| Reference::parse(&reference).spellings()),
    );
    spellings.find(|image| container_hash(name, image) == hash)
}

/// Every tag of an image together with every digest of the same repository: `nginx:1@sha256:…`.
fn pinned_tags(image: &Image) -> Vec<String> {
    let digests: Vec<&str> = image
        .repo_digests
        .iter()
        .filter_map(|d| d.split_once('@').map(|(_, d)| d))
        .collect();
    image
        .repo_tags
        .iter()
        .flat_map(|tag| digests.iter().map(move |digest| format!("{tag}@{digest}")))
        .collect()
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
