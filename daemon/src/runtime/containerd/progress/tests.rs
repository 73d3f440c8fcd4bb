use super::*;

fn info(digest: &str, created: i64, labels: &[(&str, &str)]) -> Info {
    let mut info = Info {
        digest: digest.into(),
        ..Info::default()
    };
    let at = Timestamp::from_second(created).unwrap();
    info.created_at = Some(Default::default());
    if let Some(time) = &mut info.created_at {
        time.seconds = at.as_second();
    }
    info.labels = labels
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    info
}

fn ingest(name: &str, offset: i64) -> Status {
    Status {
        r#ref: name.into(),
        offset,
        ..Status::default()
    }
}

#[test]
fn an_image_of_more_layers_than_overlayfs_stacks_is_refused() {
    let blobs = |layers: usize| {
        vec![
            Blob {
                digest: "sha256:l".into(),
                size: 1
            };
            layers + 1
        ]
    };
    assert_eq!(refusal(&blobs(MAX_LAYERS)), None);
    let why = refusal(&blobs(MAX_LAYERS + 1)).unwrap();
    assert!(
        why.contains("has 501 layers, but overlayfs stacks at most 500"),
        "{why}"
    );
}

#[test]
fn the_manifest_of_a_pull_is_found() {
    const SOURCE: &str = "containerd.io/distribution.source.docker.io";
    const LAYER: &str = "containerd.io/gc.ref.content.l.0";
    let here = [
        info(
            "old",
            10,
            &[
                (SOURCE, "library/app,team/app"),
                (CONFIG_LABEL, "c1"),
                (LAYER, "sha256:l1"),
            ],
        ),
        info(
            "new",
            100,
            &[
                (SOURCE, "library/app"),
                (CONFIG_LABEL, "c2"),
                (LAYER, "sha256:l2"),
            ],
        ),
        info("layer", 101, &[(SOURCE, "library/app")]),
        info(
            "other",
            102,
            &[(SOURCE, "library/application"), (CONFIG_LABEL, "c3")],
        ),
    ];
    let none: [Status; 0] = [];
    let writing = [ingest("layer-sha256:l1", 5)];
    let table = [
        (
            "the one that came since",
            "library/app",
            &["old"][..],
            &none[..],
            Some("new"),
        ),
        (
            "of two that came since the newer",
            "library/app",
            &[],
            &none,
            Some("new"),
        ),
        (
            "one with a time before that of what was here",
            "library/app",
            &["new"],
            &none,
            Some("old"),
        ),
        (
            "an old one, whose layers come again",
            "library/app",
            &["old", "new"],
            &writing,
            Some("old"),
        ),
        ("nothing yet", "library/app", &["old", "new"], &none, None),
        (
            "one that came from two repositories",
            "team/app",
            &[],
            &none,
            Some("old"),
        ),
        ("another repository", "library/none", &[], &writing, None),
    ];
    for (what, path, before, ingests, expected) in table {
        let before = before.iter().map(|digest| (*digest).to_owned()).collect();
        assert_eq!(
            manifest_of(&here, "docker.io", path, &before, ingests).as_deref(),
            expected,
            "{what}"
        );
    }
}
