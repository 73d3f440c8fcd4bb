//! Hot upgrades: a container of the SidecarSet is a pair of containers in a pod. One of them works,
//! and the other has an empty image. An update gives the empty one the new image; when it works,
//! the old one gets the empty image.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1beta1::sidecarset::{SidecarContainer, SidecarSetSpec};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::PodPatch;

use crate::sidecarset::names::{VERSION_ALT_PREFIX, VERSION_PREFIX, WORKING_HOT_CONTAINER};
use crate::sidecarset::on_pod::{image, images_in, in_pod, working};
use crate::sidecarset::sidecar::{self, List, hot_pair, name};

/// The pair of containers in a pod that stand for one container of the SidecarSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sidecarset) struct Pair {
    /// The container's name in the SidecarSet.
    pub(in crate::sidecarset) name: String,
    /// The list that holds both containers.
    pub(in crate::sidecarset) list: List,
    /// The container of the pair that works, or that must work after the upgrade.
    pub(in crate::sidecarset) working: String,
    /// The other container of the pair.
    pub(in crate::sidecarset) empty: String,
    /// The image of the other container while it does nothing.
    pub(in crate::sidecarset) empty_image: String,
}

impl Pair {
    /// The pair of a container in a pod.
    pub(in crate::sidecarset) fn of(container: &SidecarContainer, list: List, pod: &Pod) -> Self {
        let [first, second] = hot_pair(name(container));
        // If no annotation names the one that works, it is the one that has a version.
        let says = working(pod)
            .remove(name(container))
            .filter(|says| [&first, &second].contains(&says));
        let is_second = says.map_or_else(
            || !has_version(pod, &first) && has_version(pod, &second),
            |says| says == second,
        );
        let (working, empty) = if is_second {
            (second, first)
        } else {
            (first, second)
        };
        let empty_image = container.upgrade_strategy.hot_upgrade_empty_image.clone();
        Self {
            name: name(container).to_owned(),
            list,
            working,
            empty,
            empty_image,
        }
    }

    /// The image that the working container of the pair has in the pod, or must have.
    fn working_image<'a>(&self, pod: &'a Pod) -> &'a str {
        in_pod(pod, &self.working, self.list).map_or("", |container| &*container.image)
    }

    fn other_image<'a>(&self, pod: &'a Pod) -> &'a str {
        in_pod(pod, &self.empty, self.list).map_or("", |container| &*container.image)
    }

    fn is_in(&self, pod: &Pod) -> bool {
        [&self.working, &self.empty]
            .iter()
            .all(|name| in_pod(pod, name, self.list).is_some())
    }
}

/// Whether the container of a pair works, or worked before.
fn has_version(pod: &Pod, container: &str) -> bool {
    pod.metadata
        .annotation(&format!("{VERSION_PREFIX}{container}"))
        .is_some_and(|version| version != "0")
}

/// The pairs that the pod has. For a container that the pod lacks, a patch of its image would add a
/// container.
fn pairs<'a>(
    spec: &'a SidecarSetSpec,
    pod: &'a Pod,
) -> impl Iterator<Item = (&'a SidecarContainer, Pair)> {
    let hot = sidecar::all(spec).filter(|(container, list)| sidecar::is_hot(container, *list));
    let pairs = hot.map(|(container, list)| (container, Pair::of(container, list, pod)));
    pairs.filter(|(_, pair)| pair.is_in(pod))
}

/// Whether the old container must get the empty image. The versions decide, because the SidecarSet
/// may name another empty image by now.
pub(in crate::sidecarset) fn is_under_way(pod: &Pod, pair: &Pair) -> bool {
    let other = pod
        .metadata
        .annotation(&format!("{VERSION_ALT_PREFIX}{}", pair.working));
    other.is_some_and(|version| version != "0")
}

/// The pairs in which the old container still works, too.
pub(in crate::sidecarset) fn upgrading(spec: &SidecarSetSpec, pod: &Pod) -> Vec<Pair> {
    let pairs = pairs(spec, pod).map(|(_, pair)| pair);
    // One container of a pair always works. If the working container has the empty image, another
    // writer changed the pod, so the pair does not count.
    pairs
        .filter(|pair| is_under_way(pod, pair) && pair.working_image(pod) != pair.empty_image)
        .collect()
}

/// The patch that gives the pod's hot-upgraded containers their new images: the empty one of each
/// pair gets it. If an upgrade is under way already, the container that is not proven gets the
/// image, because the other one still works. In pairs of `handed_over` the new container serves, so
/// the older one gets the image. It does not if it has that image already, because then nothing
/// would start and take over. Such a container gets the empty image first ([`wanted_back`]).
pub(in crate::sidecarset) fn begin(
    spec: &SidecarSetSpec,
    pod: &Pod,
    version: &str,
    handed_over: &BTreeSet<String>,
) -> PodPatch {
    let mut patch = PodPatch::default();
    let mut working = working(pod);
    for (container, pair) in pairs(spec, pod) {
        let wanted = image(container);
        if pair.working_image(pod) == wanted {
            continue;
        }
        let older_is_free = handed_over.contains(&pair.name) && pair.other_image(pod) != wanted;
        let (new, old) = if is_under_way(pod, &pair) && !older_is_free {
            (&pair.working, &pair.empty)
        } else {
            (&pair.empty, &pair.working)
        };
        images_in(&mut patch, pair.list).insert(new.clone(), wanted.to_owned());
        working.insert(pair.name.clone(), new.clone());
        let of_old = pod
            .metadata
            .annotation(&format!("{VERSION_PREFIX}{old}"))
            .unwrap_or("0")
            .to_owned();
        for (key, value) in [
            (format!("{VERSION_PREFIX}{new}"), version.to_owned()),
            (format!("{VERSION_ALT_PREFIX}{new}"), of_old),
            (format!("{VERSION_ALT_PREFIX}{old}"), version.to_owned()),
        ] {
            patch.annotations.insert(key, Some(value));
        }
    }
    if patch.changes_images() {
        patch
            .annotations
            .insert(WORKING_HOT_CONTAINER.to_owned(), Some(text(&working)));
    }
    patch
}

/// The pairs in `handed_over` whose older container has the image that is wanted now. That
/// container does no work any more, and takes over from the new one only when it starts. So it gets
/// the empty image at once, regardless of the pod's other containers, and then its image as usual.
pub(in crate::sidecarset) fn wanted_back(
    spec: &SidecarSetSpec,
    pod: &Pod,
    handed_over: &BTreeSet<String>,
) -> Vec<Pair> {
    let is_meant = |(container, pair): &(&SidecarContainer, Pair)| {
        let wanted = image(container);
        handed_over.contains(&pair.name)
            && pair.other_image(pod) == wanted
            && pair.working_image(pod) != wanted
    };
    pairs(spec, pod)
        .filter(is_meant)
        .map(|(_, pair)| pair)
        .collect()
}

/// The patch that gives the old containers the empty image, once the new ones work.
pub(in crate::sidecarset) fn reset(pairs: &[Pair]) -> PodPatch {
    let mut patch = PodPatch::default();
    for pair in pairs {
        images_in(&mut patch, pair.list).insert(pair.empty.clone(), pair.empty_image.clone());
        patch.annotations.insert(
            format!("{VERSION_PREFIX}{}", pair.empty),
            Some("0".to_owned()),
        );
        patch.annotations.insert(
            format!("{VERSION_ALT_PREFIX}{}", pair.working),
            Some("0".to_owned()),
        );
    }
    patch
}

/// Whether all containers of the pod are ready, except for the old ones of the pairs.
pub(in crate::sidecarset) fn may_reset(pairs: &[Pair], pod: &Pod) -> bool {
    let is_old = |name: &str| pairs.iter().any(|pair| pair.empty == name);
    let mut others = pod
        .containers()
        .filter(|container| !is_old(&container.name));
    others.all(|container| {
        pod.container_status(&container.name)
            .is_some_and(|status| status.ready)
    })
}

fn text(working: &BTreeMap<String, String>) -> String {
    // A map with string keys always serialises.
    serde_json::to_string(working).unwrap_or_default()
}
