use crate::objects::node::image::Created;
use std::collections::BTreeMap;

use super::super::kubelet_hash::kubelet_hash;
use super::*;
use crate::objects::pod::{Condition, Container, Metadata, ReadinessGate, Spec, Status};

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

fn short(decision: UpdateDecision) -> Short {
    match decision {
        UpdateDecision::Proven { moved_tags, .. } if !moved_tags.is_empty() => Short::Moved,
        UpdateDecision::Proven {
            verified_by: "node",
            ..
        } => Short::Node,
        UpdateDecision::Proven { .. } => Short::Pod,
        UpdateDecision::Wait(_) | UpdateDecision::Resize(_) => Short::Wait,
        UpdateDecision::NeedsDaemon(_) => Short::Ask,
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
    let decision = judge(&ungated, &state, &newer("b:1"));
    assert_eq!(
        short(decision),
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
    let decision = judge(&ready, &state, &newer("b:1"));
    assert_eq!(
        short(decision),
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
    let decision = judge(
        &pod("a:1", 5, 0, "1", "a:1", "sha256:a"),
        &State::default(),
        &NodeFacts::default(),
    );
    assert_eq!(
        decision,
        UpdateDecision::Proven {
            verified_by: "pod",
            moved_tags: vec![]
        }
    );
}
