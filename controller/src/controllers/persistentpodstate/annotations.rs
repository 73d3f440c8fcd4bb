//! Annotations of pods that the feed does not keep: read from each ready pod, until it has them
//! all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_kinds::persistentpodstate::{LONGEST_ANNOTATION, is_outside, wanted_annotations};
use berth_runtime::Key;
use berth_runtime::client::{self, Failed};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::PODS;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;

/// Pods that are read at once.
const AT_ONCE: usize = 8;

type Values = BTreeMap<String, String>;

/// The annotations that were read, by object.
#[derive(Default)]
pub(super) struct Annotations(Mutex<HashMap<Key, Read>>);

/// The annotations that were read for one object.
#[derive(Default, Clone)]
struct Read {
    keys: Vec<String>,
    /// By uid, with the pod's version when it was read.
    by_uid: BTreeMap<Box<str>, (Box<str>, Values)>,
}

/// A pod's annotations, of which most are dropped at once.
#[derive(Deserialize)]
struct Seen {
    metadata: SeenMetadata,
}

#[derive(Deserialize)]
struct SeenMetadata {
    uid: Box<str>,
    #[serde(default)]
    annotations: Values,
}

impl Annotations {
    /// The annotations of each ready pod that the object names and that no feed keeps. A pod is
    /// read when it is first seen ready. While an annotation is missing, it is read again when it
    /// changes.
    ///
    /// # Errors
    /// The server's answer.
    pub(super) async fn read(
        &self,
        client: &Client,
        key: &Key,
        state: &PersistentPodState,
        pods: &[Arc<Pod>],
    ) -> Result<BTreeMap<Box<str>, Values>, Failed> {
        let keys: Vec<_> = wanted_annotations(state)
            .filter(|key| is_outside(key))
            .map(str::to_owned)
            .collect();
        if keys.is_empty() {
            self.forget(key);
            return Ok(BTreeMap::new());
        }
        let known = self
            .all()
            .get(key)
            .cloned()
            .filter(|read| read.keys == keys)
            .unwrap_or_default();
        let mut read = Read {
            keys,
            by_uid: BTreeMap::new(),
        };
        let mut missing = Vec::new();
        for pod in pods
            .iter()
            .filter(|pod| pod.is_active() && pod.is_true("Ready"))
        {
            let metadata = &pod.metadata;
            let is_current = |(version, values): &&(Box<str>, Values)| {
                values.len() == read.keys.len() || *version == metadata.resource_version
            };
            match known.by_uid.get(&metadata.uid).filter(is_current) {
                Some(known) => drop(read.by_uid.insert(metadata.uid.clone(), known.clone())),
                None => missing.push(pod.clone()),
            }
        }
        let keys = &read.keys;
        let new =
            stream::iter(missing).map(|pod| async move { read_pod(client, &pod, keys).await });
        let new: Vec<_> = new.buffer_unordered(AT_ONCE).try_collect().await?;
        read.by_uid.extend(new.into_iter().flatten());
        let by_uid = read
            .by_uid
            .iter()
            .map(|(uid, (_, values))| (uid.clone(), values.clone()))
            .collect();
        self.all().insert(key.clone(), read);
        Ok(by_uid)
    }

    /// Drops the annotations of an object.
    pub(super) fn forget(&self, key: &Key) {
        self.all().remove(key);
    }

    fn all(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Read>> {
        self.0.lock()
    }
}

/// `None`: the pod is gone, or is another one by now.
async fn read_pod(
    client: &Client,
    pod: &Pod,
    keys: &[String],
) -> Result<Option<(Box<str>, (Box<str>, Values))>, Failed> {
    let metadata = &pod.metadata;
    match client::get::<Seen>(client, &PODS.path(&metadata.namespace, &metadata.name)?).await {
        Ok(Seen { metadata: seen }) if seen.uid == metadata.uid => {
            let is_wanted = |key: &str, value: &str| {
                keys.iter().any(|wanted| wanted == key) && value.len() <= LONGEST_ANNOTATION
            };
            let wanted = seen
                .annotations
                .into_iter()
                .filter(|(key, value)| is_wanted(key, value));
            Ok(Some((
                seen.uid,
                (metadata.resource_version.clone(), wanted.collect()),
            )))
        }
        Ok(_) => Ok(None),
        Err(failed) if failed.code == 404 => Ok(None),
        Err(failed) => Err(failed),
    }
}
