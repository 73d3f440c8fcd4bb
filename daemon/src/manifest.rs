//! Image manifests and indexes, as far as sizes and ids need them.

use std::collections::HashSet;

use serde::Deserialize;

/// Most layers that overlayfs stacks. An image of more can be pulled, but no container can be made of it.
pub const MAX_LAYERS: usize = 500;

/// A blob that a manifest or an index names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Blob {
    /// `sha256:…`.
    pub digest: String,
    /// Bytes.
    #[serde(default)]
    pub size: u64,
}

/// What a document in a content store turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// The manifest of an image for one platform.
    Manifest {
        /// The image's configuration; its digest is the image id of CRI.
        config: Blob,
        /// The layers, lowest first.
        layers: Vec<Blob>,
    },
    /// An index: manifests for several platforms.
    Index {
        /// The manifests, in order.
        manifests: Vec<Blob>,
    },
}

#[derive(Deserialize)]
struct Raw {
    config: Option<Blob>,
    layers: Option<Vec<Blob>>,
    manifests: Option<Vec<Blob>>,
}

/// Reads a manifest or an index, of OCI or Docker. `None` for anything else.
pub fn parse(json: &[u8]) -> Option<Document> {
    let raw: Raw = serde_json::from_slice(json).ok()?;
    match raw {
        Raw {
            manifests: Some(manifests),
            ..
        } => Some(Document::Index { manifests }),
        Raw {
            config: Some(config),
            layers,
            ..
        } => Some(Document::Manifest {
            config,
            layers: layers.unwrap_or_default(),
        }),
        _ => None,
    }
}

/// Bytes here and bytes wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes that are here.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

impl Bytes {
    /// Sums up blobs: `here` says how many bytes of a blob have arrived. A layer that is named twice counts once.
    pub fn of<'a>(
        blobs: impl IntoIterator<Item = &'a Blob>,
        mut here: impl FnMut(&Blob) -> u64,
    ) -> Bytes {
        let mut seen = HashSet::new();
        let mut bytes = Bytes::default();
        for blob in blobs {
            if !seen.insert(&*blob.digest) {
                continue;
            }
            bytes.total = bytes.total.saturating_add(blob.size);
            bytes.done = bytes.done.saturating_add(here(blob).min(blob.size));
        }
        bytes
    }

    /// Bytes still to come.
    pub fn missing(self) -> u64 {
        self.total.saturating_sub(self.done)
    }

    /// Percent of the bytes that are here, rounded down.
    pub fn percent(self) -> i32 {
        if self.total == 0 {
            return 0;
        }
        // Done never exceeds total, so the quotient is at most 100.
        (u128::from(self.done) * 100 / u128::from(self.total)).min(100) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blob(digest: &str, size: u64) -> Blob {
        Blob {
            digest: digest.into(),
            size,
        }
    }

    #[test]
    fn documents_are_told_apart() {
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
}
