//! Is an in-place update exact: was every changed container created from the wanted spec?
//!
//! The kubelet must have seen the patched spec (`status.observedGeneration`): it publishes that at the start of a sync,
//! with the containers that it then finds, so a container made from the wanted image in that status stays. Whether it is
//! made from it, two sources say, and either suffices. *The pod*: the container is the one that is recorded as created
//! for this image already, or it runs another image than before and the wanted one is the only other it can be.
//! *The node*: its daemon read from the runtime what the container was created from. That may be news to the pod's status,
//! which shows a new container up to a second after it was created.
//! A new container id alone proves nothing: an old image that crashes and restarts in between has one, too.
//! Resources are exact when the containers' statuses have what the spec says, and no resize is pending or in progress.

use berth_api::image;

use super::env;
use super::resize;
use super::restart;
use super::state::{Before, State};
use super::verdict::without_scheme;

pub use super::verdict::{Created, NodeFacts, Verdict};
use crate::pod::{ContainerStatus, Pod, gates};

/// The answer for one container.
enum One {
    Pod,
    Node,
    Wait(String),
    Ask(String),
}

/// Judges the update that `state` records. `node` is empty where nothing is known.
pub fn judge(pod: &Pod, state: &State, node: &NodeFacts) -> Verdict {
    let unwritten = resize::unwritten(pod, &state.resources);
    if !unwritten.is_empty() {
        return Verdict::Resize(unwritten);
    }
    let verdict = env::joined(images(pod, state, node), env::judge(pod, state, node));
    let verdict = env::joined(verdict, restart::judge(pod, state));
    let pending = state
        .update_resources
        .then(|| resize::pending(pod))
        .flatten();
    match (verdict, pending) {
        (Verdict::Exact { .. }, Some(why)) => Verdict::Wait(why),
        (verdict, _) => verdict,
    }
}

fn images(pod: &Pod, state: &State, node: &NodeFacts) -> Verdict {
    let observed = pod.status.observed_generation >= pod.metadata.generation;
    // Where no gate is closed, `Ready` may be that of the container before until the kubelet tells of the new one.
    let is_out = gates::has_gate(pod, gates::IN_PLACE_UPDATE_READY) && !pod.is_true("Ready");
    let mut verified_by = "pod";
    let mut moved_tags = Vec::new();
    let mut ask = None;
    for (name, before) in &state.last_container_statuses {
        let Some(wanted) = pod.container(name) else {
            continue;
        };
        let Some(status) = pod.container_status(name) else {
            return Verdict::Wait(format!("container {name} has no status yet"));
        };
        match container(
            &wanted.image,
            status,
            before,
            state.from_settled,
            observed,
            node,
        ) {
            One::Pod => {}
            One::Node if is_out || is_told(node, status) => verified_by = "node",
            One::Node => {
                return Verdict::Wait(format!(
                    "the kubelet has not told of the new container {name} yet"
                ));
            }
            One::Wait(why) => return Verdict::Wait(why),
            One::Ask(why) => ask = Some(why),
        }
        let ids = node.image_ids.get(&image::normalised(&wanted.image));
        let newest = node
            .created
            .get(name)
            .filter(|c| !c.image_id.is_empty() && c.is_present(status));
        let image_id = newest.map_or(&*status.image_id, |created| &created.image_id);
        if ids.is_some_and(|ids| {
            !ids.is_empty() && !ids.iter().any(|id| image::same_id(id, image_id))
        }) {
            moved_tags.push(name.clone());
        }
    }
    match ask {
        Some(why) => Verdict::AskNode(why),
        None => Verdict::Exact {
            verified_by,
            moved_tags,
        },
    }
}

fn container(
    wanted: &str,
    status: &ContainerStatus,
    before: &Before,
    from_settled: bool,
    observed: bool,
    node: &NodeFacts,
) -> One {
    let name = &status.name;
    let id = without_scheme(&status.container_id);
    if id.is_empty() {
        return One::Wait(format!("container {name} has not been created yet"));
    }
    if !observed {
        return One::Wait(format!(
            "the kubelet has not seen the new image {wanted} of container {name} yet"
        ));
    }
    // What a container was created from never changes: a report is as good as it is old.
    let created = node
        .created
        .get(&**name)
        .filter(|created| created.is_present(status));
    if let Some(created) = created {
        return if created.is_from(name, wanted) {
            One::Node
        } else {
            One::Wait(not_yet(status, wanted, "another image"))
        };
    }
    if is_of_before(status, before) {
        return if before.image == wanted {
            One::Pod
        } else if before.container_id.is_empty() || before.image.is_empty() {
            One::Ask(format!(
                "container {name} may or may not have been created from {wanted}"
            ))
        } else {
            One::Wait(not_yet(status, wanted, &before.image))
        };
    }
    let named = image::normalised(&status.image) == image::normalised(wanted)
        || image::pins(wanted, &status.image_id);
    let listed = node.image_ids.get(&image::normalised(wanted));
    let known =
        named || listed.is_some_and(|ids| ids.iter().any(|i| image::same_id(i, &status.image_id)));
    if from_settled
        && known
        && !image::same_id(&before.image_id, &status.image_id)
        && !status.image_id.is_empty()
    {
        return One::Pod;
    }
    One::Ask(format!(
        "container {name} restarted, and its status does not tell {wanted} from the image before"
    ))
}

/// A container that is still the one of before the update, by the pod's status, though its image was to change.
pub(super) fn unchanged_container<'a>(pod: &Pod, state: &'a State) -> Option<&'a str> {
    let is_unchanged = |(name, before): &(&String, &Before)| {
        let wanted = pod.container(name);
        let status = pod.container_status(name);
        before.is_known()
            && wanted.is_some_and(|wanted| *wanted.image != *before.image)
            && status.is_some_and(|status| is_of_before(status, before))
    };
    state
        .last_container_statuses
        .iter()
        .find(is_unchanged)
        .map(|(name, _)| name.as_str())
}

/// The container that the pod's status shows is the one that ran before the update.
fn is_of_before(status: &ContainerStatus, before: &Before) -> bool {
    without_scheme(&status.container_id) == without_scheme(&before.container_id)
}

/// The container that the node knows is the one that the pod's status shows.
fn is_told(node: &NodeFacts, status: &ContainerStatus) -> bool {
    let created = node.created.get(&*status.name);
    created.is_some_and(|created| {
        without_scheme(&created.container_id) == without_scheme(&status.container_id)
    })
}

/// A container that is the one of before: it runs, or waits to be the new one.
fn not_yet(status: &ContainerStatus, wanted: &str, before: &str) -> String {
    let name = &status.name;
    match &status.state.waiting {
        Some(waiting) => format!("container {name} waits to run {wanted}: {}", waiting.reason),
        None => format!("container {name} still runs {before}, not {wanted}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::kubelet_hash::kubelet_hash;
    use super::*;
    use crate::pod::{Condition, Container, Metadata, ReadinessGate, Spec, Status};

    fn pod(
        image: &str,
        generation: i64,
        observed: i64,
        id: &str,
        status_image: &str,
        image_id: &str,
    ) -> Pod {
        Pod {
            metadata: Metadata {
                generation,
                ..Metadata::default()
            },
            spec: Spec {
                containers: [Container {
                    name: "c".into(),
                    image: image.into(),
                    ..Container::default()
                }]
                .into(),
                ..Spec::default()
            },
            status: Status {
                observed_generation: observed,
                container_statuses: [ContainerStatus {
                    name: "c".into(),
                    image: status_image.into(),
                    image_id: image_id.into(),
                    container_id: format!("containerd://{id}").into(),
                    ..ContainerStatus::default()
                }]
                .into(),
                ..Status::default()
            },
        }
    }

    fn state(image: &str, id: &str, image_id: &str, from_settled: bool) -> State {
        let before = Before {
            image_id: image_id.into(),
            container_id: format!("containerd://{id}"),
            image: image.into(),
        };
        State {
            last_container_statuses: [("c".to_owned(), before)].into(),
            update_images: true,
            from_settled,
            ..State::default()
        }
    }

    fn facts(id: &str, image: &str, ids: &[&str]) -> NodeFacts {
        let created = Created {
            container_id: id.into(),
            hash: kubelet_hash("c", image),
            ..Created::default()
        };
        let ids = ids.iter().map(ToString::to_string).collect();
        NodeFacts {
            created: if id.is_empty() {
                BTreeMap::new()
            } else {
                [("c".to_owned(), created)].into()
            },
            image_ids: [(image::normalised(image), ids)].into(),
        }
    }

    #[derive(Debug, PartialEq)]
    enum Short {
        Pod,
        Node,
        Moved,
        Wait,
        Ask,
    }

    fn short(verdict: Verdict) -> Short {
        match verdict {
            Verdict::Exact { moved_tags, .. } if !moved_tags.is_empty() => Short::Moved,
            Verdict::Exact {
                verified_by: "node",
                ..
            } => Short::Node,
            Verdict::Exact { .. } => Short::Pod,
            Verdict::Wait(_) | Verdict::Resize(_) => Short::Wait,
            Verdict::AskNode(_) => Short::Ask,
        }
    }

    #[test]
    fn the_pod_tells() {
        let none = NodeFacts::default();
        let table = [
            (
                "the patch is not seen yet",
                pod("b:1", 2, 1, "1", "a:1", "sha256:a"),
                state("a:1", "1", "sha256:a", true),
                Short::Wait,
            ),
            (
                "seen, old container",
                pod("b:1", 2, 2, "1", "a:1", "sha256:a"),
                state("a:1", "1", "sha256:a", true),
                Short::Wait,
            ),
            (
                "seen, new container, new image",
                pod("b:1", 2, 2, "2", "docker.io/library/b:1", "sha256:b"),
                state("a:1", "1", "sha256:a", true),
                Short::Pod,
            ),
            (
                "a new container of the old image: a crash",
                pod("b:1", 2, 2, "2", "a:1", "sha256:a"),
                state("a:1", "1", "sha256:a", true),
                Short::Ask,
            ),
            (
                "a new container, another image, another name",
                pod("b:1", 2, 2, "2", "a:1", "sha256:c"),
                state("a:1", "1", "sha256:a", true),
                Short::Ask,
            ),
            (
                "another update was under way",
                pod("b:1", 3, 3, "2", "b:1", "sha256:b"),
                state("a:1", "1", "sha256:a", false),
                Short::Ask,
            ),
            (
                "back to A before the kubelet saw B",
                pod("a:1", 3, 3, "1", "a:1", "sha256:a"),
                state("a:1", "1", "sha256:a", false),
                Short::Pod,
            ),
            (
                "back to A, not seen yet",
                pod("a:1", 3, 2, "1", "a:1", "sha256:a"),
                state("a:1", "1", "sha256:a", false),
                Short::Wait,
            ),
            (
                "two tags of one digest",
                pod("a:2", 2, 2, "2", "a:1", "sha256:a"),
                state("a:1", "1", "sha256:a", true),
                Short::Ask,
            ),
            (
                "nothing known of the container before",
                pod("b:1", 2, 2, "1", "b:1", "sha256:b"),
                state("", "1", "sha256:b", false),
                Short::Ask,
            ),
        ];
        for (what, pod, state, expected) in table {
            assert_eq!(short(judge(&pod, &state, &none)), expected, "{what}");
        }
    }

    #[test]
    fn the_node_tells() {
        let table = [
            (
                "two tags of one digest",
                pod("a:2", 2, 2, "2", "a:1", "sha256:a"),
                facts("2", "a:2", &["sha256:a"]),
                Short::Node,
            ),
            (
                "a stale report of the old container",
                pod("a:2", 2, 2, "2", "a:1", "sha256:a"),
                facts("1", "a:1", &["sha256:a"]),
                Short::Ask,
            ),
            (
                "created from the old name",
                pod("a:2", 2, 2, "2", "a:1", "sha256:a"),
                facts("2", "a:1", &["sha256:a"]),
                Short::Wait,
            ),
            (
                "right, but the kubelet has not seen the patch",
                pod("a:2", 2, 1, "2", "a:1", "sha256:a"),
                facts("2", "a:2", &[]),
                Short::Wait,
            ),
            (
                "the tag moved after it was created",
                pod("b:1", 2, 2, "2", "b:1", "sha256:old"),
                facts("2", "b:1", &["sha256:new"]),
                Short::Moved,
            ),
            (
                "only the image is known, by another name",
                pod("b:1", 2, 2, "2", "x:9", "x@sha256:b"),
                facts("", "b:1", &["sha256:b"]),
                Short::Pod,
            ),
        ];
        let state = state("a:1", "1", "sha256:a", true);
        for (what, pod, facts, expected) in table {
            assert_eq!(short(judge(&pod, &state, &facts)), expected, "{what}");
        }
    }

    #[test]
    fn a_native_sidecar_is_judged_as_a_container_is() {
        let state = state("a:1", "1", "sha256:a", true);
        for (what, mut pod, facts, expected) in [
            (
                "the patch is not seen yet",
                pod("b:1", 2, 1, "1", "a:1", "sha256:a"),
                NodeFacts::default(),
                Short::Wait,
            ),
            (
                "seen, old container",
                pod("b:1", 2, 2, "1", "a:1", "sha256:a"),
                NodeFacts::default(),
                Short::Wait,
            ),
            (
                "new container",
                pod("b:1", 2, 2, "2", "b:1", "sha256:b"),
                NodeFacts::default(),
                Short::Pod,
            ),
            (
                "two tags of one digest",
                pod("a:2", 2, 2, "2", "a:1", "sha256:a"),
                NodeFacts::default(),
                Short::Ask,
            ),
            (
                "two tags, told by the node",
                pod("a:2", 2, 2, "2", "a:1", "sha256:a"),
                facts("2", "a:2", &["sha256:a"]),
                Short::Node,
            ),
        ] {
            pod.spec.native_sidecars = std::mem::take(&mut pod.spec.containers);
            pod.status.init_container_statuses = std::mem::take(&mut pod.status.container_statuses);
            assert_eq!(short(judge(&pod, &state, &facts)), expected, "{what}");
        }
        let mut old = pod("b:1", 2, 2, "1", "a:1", "sha256:a");
        old.spec.native_sidecars = std::mem::take(&mut old.spec.containers);
        assert_eq!(unchanged_container(&old, &state), Some("c"));
    }

    #[test]
    fn the_node_knows_a_container_before_the_pod_does() {
        let present = |restarts| {
            let mut pod = pod("b:1", 2, 2, "1", "a:1", "sha256:a");
            pod.spec.readiness_gates = [ReadinessGate {
                condition_type: gates::IN_PLACE_UPDATE_READY.into(),
            }]
            .into();
            pod.status.container_statuses[0].restart_count = restarts;
            pod
        };
        let newer = |image: &str| {
            let mut facts = facts("2", image, &["sha256:b"]);
            let image_id = if image == "b:1" {
                "sha256:b"
            } else {
                "sha256:a"
            };
            facts.created.values_mut().for_each(|created| {
                created.attempt = Some(5);
                created.image_id = image_id.into();
            });
            facts
        };
        let state = state("a:1", "1", "sha256:a", true);
        let table = [
            (
                "the next container, of the wanted image",
                4,
                "b:1",
                Short::Node,
            ),
            (
                "the next container, of the old image: a crash",
                4,
                "a:1",
                Short::Wait,
            ),
            (
                "an earlier container of the wanted image",
                5,
                "b:1",
                Short::Wait,
            ),
            ("a much earlier one", 9, "b:1", Short::Wait),
        ];
        for (what, restarts, image, expected) in table {
            assert_eq!(
                short(judge(&present(restarts), &state, &newer(image))),
                expected,
                "{what}"
            );
        }
        let mut ungated = present(4);
        ungated.spec.readiness_gates = [].into();
        let verdict = judge(&ungated, &state, &newer("b:1"));
        assert_eq!(
            short(verdict),
            Short::Wait,
            "without a gate Ready is still that of the container before"
        );
        ungated.status.container_statuses[0].container_id = "containerd://2".into();
        assert_eq!(
            short(judge(&ungated, &state, &newer("b:1"))),
            Short::Node,
            "the kubelet tells of it"
        );
        let mut ready = present(4);
        let is_ready = Condition {
            type_: "Ready".into(),
            status: "True".into(),
            ..Condition::default()
        };
        ready.status.conditions = [is_ready].into();
        let verdict = judge(&ready, &state, &newer("b:1"));
        assert_eq!(
            short(verdict),
            Short::Wait,
            "behind an open gate Ready may still be that of the container before"
        );
        let mut unseen = present(4);
        unseen.status.observed_generation = 1;
        assert_eq!(
            short(judge(&unseen, &state, &newer("b:1"))),
            Short::Wait,
            "the kubelet has not seen the patch"
        );
    }

    #[test]
    fn metadata_alone_is_exact_at_once() {
        let verdict = judge(
            &pod("a:1", 5, 0, "1", "a:1", "sha256:a"),
            &State::default(),
            &NodeFacts::default(),
        );
        assert_eq!(
            verdict,
            Verdict::Exact {
                verified_by: "pod",
                moved_tags: vec![]
            }
        );
    }
}
