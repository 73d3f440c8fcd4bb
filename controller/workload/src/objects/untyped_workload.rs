//! The workload of a subset, of any kind, as its owner sees it.

pub mod stateful;

use berth_api::text::JsonText;
use berth_api::weight::without_managed_fields;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::objects::owner;
use crate::objects::pod::slim;
use crate::objects::resource::{OwnerKind, Resource};

/// The kind that owns the workloads of subsets.
const SUBSET_OWNER: OwnerKind = Resource::of(&berth_api::kinds::UNITED_DEPLOYMENT).owner_kind();

/// A workload whose spec stays text, because its owner replaces it as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UntypedWorkload {
    /// Name, uid, labels, annotations, owners.
    pub metadata: ObjectMeta,
    /// The spec as the apiserver has it. For a workload that is no subset's, only its selector.
    pub spec: JsonText,
    /// `spec.replicas`, by default 1.
    pub replicas: i32,
    /// The status that its controller wrote.
    pub status: WorkloadStatus,
}

#[derive(Deserialize)]
struct Read {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: JsonText,
    #[serde(default)]
    status: WorkloadStatus,
}

/// The longest selector of a workload that may be adopted, in bytes of JSON.
const LONGEST_SELECTOR: usize = 16 << 10;

/// The part of a spec by which a workload finds its pods.
#[derive(Default, Deserialize, Serialize)]
struct Selecting {
    #[serde(default)]
    selector: JsonText,
}

/// A workload with only its identity and labels parsed.
#[derive(Deserialize)]
struct Identified {
    metadata: Identity,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    labels: Option<Subset>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Deserialize)]
struct Subset {
    #[serde(rename = "apps.kruise.io/subset-name")]
    name: Option<String>,
}

/// Parses no spec of a workload that is no subset's. Of such a workload without a subset's name it
/// parses only the identity, because a cluster has thousands of them.
impl<'de> Deserialize<'de> for UntypedWorkload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = JsonText::deserialize(deserializer)?;
        Self::read(text.as_str()).map_err(D::Error::custom)
    }
}

/// The fields of a status that all kinds of workloads have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    /// The generation of the spec that the status speaks of.
    pub observed_generation: i64,
    /// Pods.
    pub replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Available pods.
    pub available_replicas: i32,
    /// The conditions about its failures.
    pub conditions: Vec<WorkloadCondition>,
}

/// A condition of a workload.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCondition {
    /// Type, such as `Blocked`.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Numbers {
    replicas: Option<i32>,
}

/// Whether it is the workload of a subset: whether its controller is of the kind that has subsets.
pub fn is_united(metadata: &ObjectMeta) -> bool {
    owner::controller(metadata).is_some_and(|owner| SUBSET_OWNER.is_of(&owner))
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        let Identity {
            namespace,
            name,
            uid,
            resource_version,
            deletion_timestamp,
            owner_references,
            labels: _,
        } = identity;
        Self {
            namespace,
            name,
            uid,
            resource_version,
            deletion_timestamp,
            owner_references,
            ..Self::default()
        }
    }
}

impl UntypedWorkload {
    /// Reads a workload of Kubernetes from its text.
    ///
    /// # Errors
    /// The text is no workload, or its metadata is larger than what stores keep.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let Identified { metadata } =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_labelled = metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.name.is_some());
        let metadata = metadata.into();
        if !is_labelled && !is_united(&metadata) {
            return Ok(Self {
                metadata,
                ..Self::default()
            });
        }
        let text = without_managed_fields(text);
        let Read {
            mut metadata,
            mut spec,
            status,
        } = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        slim(&mut metadata)?;
        if !is_united(&metadata) {
            let selecting = spec
                .read::<Selecting>()
                .filter(|spec| spec.selector.as_str().len() <= LONGEST_SELECTOR);
            spec = JsonText::from(
                &serde_json::to_value(selecting.unwrap_or_default()).unwrap_or_default(),
            );
        }
        Ok(Self::new(metadata, spec, status))
    }

    /// A workload from its parts.
    pub fn new(metadata: ObjectMeta, spec: JsonText, status: WorkloadStatus) -> Self {
        let replicas = spec
            .read::<Numbers>()
            .and_then(|numbers| numbers.replicas)
            .unwrap_or(1);
        Self {
            metadata,
            spec,
            replicas,
            status,
        }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether all its pods are ready, by a status that speaks of the present spec.
    pub fn is_ready(&self) -> bool {
        let generation = self.metadata.generation.unwrap_or_default();
        self.status.observed_generation >= generation && self.status.ready_replicas >= self.replicas
    }

    /// Its failure, the gravest first: `Blocked` of Berth's kinds, `ReplicaFailure` or an exceeded
    /// deadline (`Progressing` is False) of Kubernetes' kinds.
    pub fn failure(&self) -> Option<&WorkloadCondition> {
        const FAILURES: [(&str, &str); 3] = [
            ("Blocked", "True"),
            ("ReplicaFailure", "True"),
            ("Progressing", "False"),
        ];
        let is = |failure, condition: &WorkloadCondition| {
            failure == (condition.type_.as_str(), condition.status.as_str())
        };
        FAILURES.iter().find_map(|failure| {
            self.status
                .conditions
                .iter()
                .find(|condition| is(*failure, condition))
        })
    }
}

#[cfg(test)]
mod tests;
