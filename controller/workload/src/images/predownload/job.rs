//! The ImagePullJob that pulls one image of a revision ahead.

use berth_api::IntOrString;
use berth_api::names::{GROUP, V1BETA1};
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::{MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS, MAX_TIMEOUT_SECONDS};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use crate::update::revision::{HASH_LABEL, Revision, short};

/// Default for the seconds after which a pull has failed on a node.
const TIMEOUT_SECONDS: i32 = 300;

/// Seconds that a finished job stays, so that people can see it.
const TTL_SECONDS: i64 = 600;

/// The longest name of an object.
pub const LONGEST_NAME: usize = 253;

/// An ImagePullJob that pulls one image ahead.
#[derive(Debug)]
pub struct Job<'a> {
    /// Its name.
    pub name: &'a str,
    /// The namespace of the pods.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: Map<String, Value>,
    /// The reference to its owner.
    pub owner: Value,
    /// The image to pull.
    pub image: &'a str,
    /// Names of Secrets for the registry.
    pub secrets: Vec<&'a str>,
    /// The pods on whose nodes it pulls.
    pub selector: Value,
    /// Nodes that pull at a time; 1 by default.
    pub parallelism: Option<&'a IntOrString>,
    /// Seconds after which a pull has failed on a node.
    pub timeout_seconds: Option<i32>,
    /// How long updates wait for the image, if they do.
    pub patience: Option<SignedDuration>,
    /// Labels and annotations for the runtime.
    pub sandbox: Value,
}

impl Job<'_> {
    /// The object.
    pub fn body(self) -> Value {
        // A timeout of 0 would leave no time to pull.
        let timeout = self.timeout_seconds.filter(|seconds| *seconds > 0);
        let timeout = timeout.map_or(TIMEOUT_SECONDS, |seconds| seconds.min(MAX_TIMEOUT_SECONDS));
        let ttl = self
            .patience
            .map_or(0, |patience| patience.as_secs())
            .clamp(TTL_SECONDS, i64::from(i32::MAX));
        json!({
            "apiVersion": format!("{GROUP}/{V1BETA1}"),
            "kind": "ImagePullJob",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": self.labels, "ownerReferences": [self.owner],
            },
            "spec": {
                "image": self.image,
                "pullSecrets": self.secrets,
                "podSelector": self.selector,
                "parallelism": self.parallelism.map_or(json!(1), |value| json!(value)),
                "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": timeout},
                "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": ttl},
                "sandboxConfig": self.sandbox,
            },
        })
    }
}

/// The pods' labels and annotations for the runtime, up to a job's limit, because they are copied
/// to every node.
pub(super) fn sandbox(labels: &Map<String, Value>, annotations: &Map<String, Value>) -> Value {
    let mut room = MAX_SANDBOX_BYTES;
    let mut fitting = |pairs: &Map<String, Value>| -> Map<String, Value> {
        let fits = |(key, value): &(&String, &Value)| {
            let left = room.checked_sub(key.len() + value.as_str().map_or(0, str::len));
            room = left.unwrap_or(room);
            left.is_some()
        };
        pairs
            .iter()
            .filter(fits)
            .take(MAX_SANDBOX_PAIRS)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    json!({"labels": fitting(labels), "annotations": fitting(annotations)})
}

/// The revision's name and the container's, cut at the limit of an object's name.
pub fn job_name(updated: &Revision, container: &str) -> String {
    let revision = &*updated.metadata.name;
    let whole = format!("{revision}-{container}");
    if whole.len() <= LONGEST_NAME {
        return whole;
    }
    let tail = format!("-{}-{container}", short(revision));
    let room = LONGEST_NAME.saturating_sub(tail.len());
    let cut = revision
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| *at <= room)
        .last()
        .unwrap_or(0);
    format!("{}{tail}", revision[..cut].trim_end_matches(['-', '.']))
}

/// The hash in a revision's name, by which its jobs are found.
pub fn hash(revision: &Revision) -> &str {
    revision
        .metadata
        .label(HASH_LABEL)
        .unwrap_or_else(|| short(&revision.metadata.name))
}

/// Whether the job pulls images of the revision.
pub fn is_of(job: &ImagePullJob, revision: &Revision) -> bool {
    let labels = job.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(HASH_LABEL))
        .is_some_and(|label| label == hash(revision))
}
