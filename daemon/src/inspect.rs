//! What the containers of pods were created from.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1beta1::nodeimage::{InspectPod, InspectedContainer, InspectedPod};
use jiff::Timestamp;
use k8s_cri::v1::{Container, Image};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::container_hash::{self, container_hash};
use berth_api::image::Reference;

/// The label by which the kubelet marks a container with its pod's uid.
pub const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// The label with its pod's namespace.
pub const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
/// The label with its pod's name.
pub const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";

/// What a runtime said about containers and images.
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

/// Answers for each pod what the newest container of each name was created from, in the order of `pods`. The answers have
/// no times yet.
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

/// Whether the container's kubelet made it for the pod of this namespace, name and uid. All three must match, because admission
/// policies see the namespace alone, and a uid alone may be another namespace's.
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
        // The kubelet counts them; a clock may have been set back.
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

/// Finds the image name that makes the kubelet's hash. The names of the container's own image come first, so that of
/// names that happen to share a hash the likely one is found.
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
mod tests {
    use k8s_cri::v1::{ContainerMetadata, ImageSpec};

    use super::*;

    const ID: &str = "sha256:0761";

    fn container(uid: &str, name: &str, id: &str, created_at: i64, hash: &str) -> Container {
        Container {
            id: id.into(),
            metadata: Some(ContainerMetadata {
                name: name.into(),
                attempt: 0,
            }),
            image: Some(ImageSpec {
                image: ID.into(),
                ..ImageSpec::default()
            }),
            image_ref: ID.into(),
            created_at,
            labels: [
                (POD_UID_LABEL, uid),
                (POD_NAME_LABEL, "p"),
                (POD_NAMESPACE_LABEL, "default"),
            ]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
            annotations: [(container_hash::ANNOTATION.to_owned(), hash.to_owned())].into(),
            ..Container::default()
        }
    }

    fn image(id: &str, tags: &[&str], digests: &[&str]) -> Image {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Image {
            id: id.into(),
            repo_tags: owned(tags),
            repo_digests: owned(digests),
            ..Image::default()
        }
    }

    fn pod(uid: &str) -> InspectPod {
        InspectPod {
            namespace: "default".into(),
            name: "p".into(),
            uid: uid.into(),
            env: Vec::new(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn image_of(container: Container, images: &[Image], names: &[String]) -> String {
        let facts = Facts {
            runtime: "containerd",
            containers: &[container],
            images,
            names,
        };
        inspect(&[pod("u")], facts)[0].containers[0].image.clone()
    }

    #[test]
    fn the_newest_container_of_each_name_counts_and_other_pods_do_not() {
        let containers = [
            container("u", "a", "old", 1_000_000_000, "1"),
            container("u", "a", "new", 2_000_000_000, "2"),
            container("u", "b", "b1", 1_000_000_000, "3"),
            container("other", "a", "newer", 9_000_000_000, "4"),
        ];
        let facts = Facts {
            runtime: "cri-o",
            containers: &containers,
            images: &[],
            names: &[],
        };
        let answer = inspect(&[pod("u"), pod("gone"), pod("u")], facts);
        assert_eq!(
            answer.len(),
            2,
            "a pod that is asked for twice is answered once"
        );
        let ids: Vec<&str> = answer[0]
            .containers
            .iter()
            .map(|c| c.container_id.as_str())
            .collect();
        assert_eq!(ids, ["cri-o://new", "cri-o://b1"]);
        assert_eq!(answer[0].containers[0].created_at, Some(Time(at(2))));
        assert_eq!(
            (answer[1].uid.as_str(), answer[1].containers.len()),
            ("gone", 0)
        );
    }

    #[test]
    fn inspect_needs_namespace_name_and_uid_of_the_pod() {
        let containers = [container("u", "a", "1", 1, "h")];
        let facts = Facts {
            runtime: "containerd",
            containers: &containers,
            images: &[],
            names: &[],
        };
        let found = |pod: InspectPod| inspect(&[pod], facts)[0].containers.len();
        assert_eq!(found(pod("u")), 1);
        assert_eq!(
            found(InspectPod {
                namespace: "kube-system".into(),
                ..pod("u")
            }),
            0
        );
        assert_eq!(
            found(InspectPod {
                name: "x".into(),
                ..pod("u")
            }),
            0
        );
        assert_eq!(found(pod("other")), 0);
    }

    #[test]
    fn an_answer_that_stays_keeps_its_time() {
        let containers = [container("u", "a", "1", 1, "h")];
        let facts = Facts {
            runtime: "containerd",
            containers: &containers,
            images: &[],
            names: &[],
        };
        let first = timed(inspect(&[pod("u")], facts), &[], at(1));
        assert_eq!(timed(inspect(&[pod("u")], facts), &first, at(2)), first);
        let restarted = [container("u", "a", "2", 2, "h")];
        let second = timed(
            inspect(
                &[pod("u")],
                Facts {
                    containers: &restarted,
                    ..facts
                },
            ),
            &first,
            at(3),
        );
        assert_eq!(second[0].observed_at, Some(Time(at(3))));
    }

    #[test]
    fn the_image_is_what_the_runtime_says_or_what_the_hash_tells() {
        let images = [
            image("sha256:other", &["registry.example/x:1"], &[]),
            image(
                ID,
                &["docker.io/library/app:v1", "docker.io/library/app:v1same"],
                &["docker.io/library/app@sha256:3a"],
            ),
        ];
        let said = |image: &str| {
            let mut c = container("u", "c", "1", 1, "6724c8dd");
            c.image = Some(ImageSpec {
                user_specified_image: image.into(),
                ..ImageSpec::default()
            });
            c
        };
        let hashed = |image: &str| container("u", "c", "1", 1, &container_hash("c", image));
        let table = [
            ("the runtime keeps it", said("app:v9"), "app:v9"),
            (
                "two tags of one digest, the first",
                container("u", "c", "1", 1, "6724c8dd"),
                "library/app:v1",
            ),
            (
                "two tags of one digest, the second",
                container("u", "c", "1", 1, "95ba1402"),
                "library/app:v1same",
            ),
            ("pinned", hashed("app@sha256:3a"), "app@sha256:3a"),
            (
                "tag and digest",
                hashed("app:v1@sha256:3a"),
                "app:v1@sha256:3a",
            ),
            (
                "a tag that has moved to another image",
                hashed("registry.example/x:1"),
                "registry.example/x:1",
            ),
            (
                "a name that no image has, from the spec",
                hashed("lost:1"),
                "lost:1",
            ),
            ("an unknown name", hashed("unknown:1"), ""),
            ("no hash", container("u", "c", "1", 1, ""), ""),
        ];
        for (what, container, expected) in table {
            assert_eq!(
                image_of(container, &images, &["lost:1".into()]),
                expected,
                "{what}"
            );
        }
    }
}
