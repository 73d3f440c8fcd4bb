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
fn inspect_reports_newest_container_of_each_name() {
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
    assert_eq!(answer.len(), 2, "a pod requested twice is answered once");
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
fn image_is_read_from_runtime_or_kubelet_hash() {
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
