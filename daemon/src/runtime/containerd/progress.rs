//! The bytes of a pull that is under way, read from containerd's content store.
//!
//! CRI reports nothing about a pull until it is over. But containerd writes blobs as they arrive,
//! names each unfinished blob by its digest, and labels each finished one with its source
//! repository. So the daemon finds the pull's manifest as soon as it is stored, and in it the sizes
//! of all blobs.

use std::collections::{BTreeSet, HashMap, HashSet};

use containerd_client::services::v1::{Info, Status};
use jiff::Timestamp;

use super::Containerd;
use crate::tasks::manifest::{Blob, Bytes, Document, MAX_LAYERS};
use berth_api::image::Reference;

/// The label with a blob's source repository; the registry's host follows.
const SOURCE_LABEL: &str = "containerd.io/distribution.source";
/// The label of a manifest that names its config.
const CONFIG_LABEL: &str = "containerd.io/gc.ref.content.config";
/// Labels of a manifest or an index that name blobs.
const CONTENT_LABEL: &str = "containerd.io/gc.ref.content.";

/// Follows one pull. Two pulls from one repository cannot be told apart, so they must not run at
/// once.
#[derive(Debug)]
pub struct PullWatch {
    containerd: Containerd,
    reference: Reference,
    /// The digests that were here before.
    before: HashSet<String>,
    blobs: Option<Vec<Blob>>,
    complete: BTreeSet<String>,
}

impl PullWatch {
    /// A watch over the pull of `reference`. Call it before the pull begins, otherwise a manifest
    /// that the pull brings may count as an older one.
    ///
    /// # Errors
    /// When containerd does not answer.
    pub async fn begin(
        containerd: Containerd,
        reference: &str,
    ) -> Result<PullWatch, tonic::Status> {
        let reference = Reference::parse(reference);
        let mut watch = PullWatch {
            containerd,
            reference,
            before: HashSet::new(),
            blobs: None,
            complete: BTreeSet::new(),
        };
        if watch.reference.digest.is_none() {
            watch.before = watch
                .here()
                .await?
                .into_iter()
                .map(|info| info.digest)
                .collect();
        }
        Ok(watch)
    }

    /// The pull's bytes on the node and in total. `None` as long as the manifest is not here, or if
    /// there is a [refusal](Self::refusal).
    ///
    /// # Errors
    /// When containerd does not answer.
    pub async fn look(&mut self) -> Result<Option<Bytes>, tonic::Status> {
        let ingests = self.containerd.ingests().await?;
        if self.blobs.is_none() {
            self.blobs = self.find(&ingests).await?;
        }
        let Some(blobs) = self.blobs.as_ref().filter(|_| self.refusal().is_none()) else {
            return Ok(None);
        };
        for blob in blobs {
            if !self.complete.contains(&blob.digest)
                && self.containerd.info(&blob.digest).await?.is_some()
            {
                self.complete.insert(blob.digest.clone());
            }
        }
        let under_way = offsets(&ingests);
        Ok(Some(Bytes::of(blobs, |blob| {
            match self.complete.contains(&blob.digest) {
                true => blob.size,
                false => under_way
                    .get(blob.digest.as_str())
                    .copied()
                    .unwrap_or_default(),
            }
        })))
    }

    /// The reason why no container can be made of the image; `None` if one can, or while its
    /// manifest is not here.
    pub fn refusal(&self) -> Option<String> {
        refusal(self.blobs.as_ref()?)
    }

    /// Finds the manifest of this pull and the blobs that it names.
    async fn find(&self, ingests: &[Status]) -> Result<Option<Vec<Blob>>, tonic::Status> {
        let Reference { path, digest, .. } = &self.reference;
        let host = self.reference.registry_host();
        let digests = match digest {
            Some(digest) => self.below(digest).await?,
            None => manifest_of(&self.here().await?, host, path, &self.before, ingests)
                .into_iter()
                .collect(),
        };
        for digest in digests {
            if let Some(Document::Manifest { config, mut layers }) =
                self.containerd.document(&digest).await?
            {
                layers.push(config);
                return Ok(Some(layers));
            }
        }
        Ok(None)
    }

    /// The blobs here that come from the pull's registry.
    async fn here(&self) -> Result<Vec<Info>, tonic::Status> {
        let host = self.reference.registry_host();
        self.containerd
            .list(format!(
                "labels.{}",
                quoted(&format!("{SOURCE_LABEL}.{host}"))
            ))
            .await
    }

    /// The digest itself, and its manifests if it is an index.
    async fn below(&self, digest: &str) -> Result<Vec<String>, tonic::Status> {
        let mut digests = vec![digest.to_owned()];
        if let Some(Document::Index { manifests }) = self.containerd.document(digest).await? {
            digests.extend(manifests.into_iter().map(|blob| blob.digest));
        }
        Ok(digests)
    }
}

/// The reason why no container can be made of an image with these blobs, its layers and its
/// configuration: overlayfs cannot stack so many layers.
fn refusal(blobs: &[Blob]) -> Option<String> {
    let layers = blobs.len().saturating_sub(1);
    (layers > MAX_LAYERS).then(|| {
        format!("the image has {layers} layers, but overlayfs stacks at most {MAX_LAYERS}; build it with fewer")
    })
}

/// The manifest, among all blobs here, of a pull from `path` at `host`: the newest that was not
/// here before the pull began, otherwise one that was here and whose blobs are being written. The
/// time of day does not show what was here before.
fn manifest_of(
    here: &[Info],
    host: &str,
    path: &str,
    before: &HashSet<String>,
    ingests: &[Status],
) -> Option<String> {
    let source = format!("{SOURCE_LABEL}.{host}");
    let from_path = |info: &&Info| {
        info.labels
            .get(&source)
            .is_some_and(|paths| paths.split(',').any(|p| p == path))
    };
    let manifests: Vec<&Info> = here
        .iter()
        .filter(|info| info.labels.contains_key(CONFIG_LABEL))
        .filter(from_path)
        .collect();
    let newest = |infos: &mut dyn Iterator<Item = &&Info>| {
        infos
            .max_by_key(|info| created(info))
            .map(|i| i.digest.clone())
    };
    let under_way = offsets(ingests);
    let fetching = |info: &&&Info| {
        let mut children = info
            .labels
            .iter()
            .filter(|(key, _)| key.starts_with(CONTENT_LABEL))
            .map(|(_, digest)| digest);
        children.any(|digest| under_way.contains_key(digest.as_str()))
    };
    newest(
        &mut manifests
            .iter()
            .filter(|info| !before.contains(&info.digest)),
    )
    .or_else(|| newest(&mut manifests.iter().filter(fetching)))
}

fn created(info: &Info) -> Option<Timestamp> {
    let at = info.created_at.as_ref()?;
    Timestamp::new(at.seconds, at.nanos).ok()
}

/// Bytes by digest of the blobs that are being written. Their names are like `layer-sha256:…`.
fn offsets(ingests: &[Status]) -> HashMap<&str, u64> {
    (ingests.iter())
        .filter_map(|s| Some((s.r#ref.split_once('-')?.1, u64::try_from(s.offset).ok()?)))
        .collect()
}

/// A string of containerd's filter language.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
