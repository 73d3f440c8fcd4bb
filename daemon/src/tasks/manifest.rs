//! Image manifests and indexes, as far as sizes and ids need them.

use std::collections::HashSet;

use serde::Deserialize;

/// Most layers that overlayfs stacks. An image of more can be pulled, but no container can be made
/// of it.
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

/// A parsed document of a content store.
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
    /// Sums up blobs: `here` says how many bytes of a blob have arrived. A layer that is named
    /// twice counts once.
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
mod tests;
