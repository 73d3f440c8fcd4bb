use super::*;
use proptest::prelude::*;

fn blob(digest: &str, size: u64) -> Blob {
    Blob {
        digest: digest.into(),
        size,
    }
}

#[test]
fn manifests_and_indexes_are_distinguished() {
    let manifest = br#"{"schemaVersion":2,"config":{"digest":"sha256:c","size":3},"layers":[{"digest":"sha256:l","size":5,"mediaType":"x"}]}"#;
    let expected = Document::Manifest {
        config: blob("sha256:c", 3),
        layers: vec![blob("sha256:l", 5)],
    };
    assert_eq!(parse(manifest), Some(expected));
    let index = br#"{"manifests":[{"digest":"sha256:m","size":7,"platform":{"os":"linux"}}]}"#;
    assert_eq!(
        parse(index),
        Some(Document::Index {
            manifests: vec![blob("sha256:m", 7)]
        })
    );
    assert_eq!(parse(br#"{"architecture":"amd64"}"#), None);
    assert_eq!(parse(b"\x1f\x8b not json"), None);
}

#[test]
fn a_layer_named_twice_counts_once() {
    let blobs = [blob("a", 10), blob("a", 10), blob("b", 5)];
    assert_eq!(
        Bytes::of(&blobs, |b| if b.digest == "a" { 4 } else { 99 }),
        Bytes { done: 9, total: 15 }
    );
}

proptest! {
    #[test]
    fn percent_stays_in_bounds(sizes in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..9)) {
        let blobs: Vec<Blob> = sizes.iter().enumerate().map(|(i, (size, _))| blob(&i.to_string(), *size)).collect();
        let mut here = sizes.iter().map(|(_, here)| *here);
        let bytes = Bytes::of(&blobs, |_| here.next().unwrap());
        prop_assert!(bytes.done <= bytes.total);
        prop_assert!((0..=100).contains(&bytes.percent()));
        prop_assert_eq!(bytes.percent() == 100, bytes.total > 0 && bytes.missing() == 0);
    }
}
