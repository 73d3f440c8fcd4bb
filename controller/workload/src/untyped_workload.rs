//! A workload of any kind, as the UnitedDeployment that owns it sees it.

use berth_api::text::JsonText;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A workload whose spec stays text, because a UnitedDeployment replaces it as a whole.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Read")]
pub struct UntypedWorkload {
    /// Name, uid, labels, annotations, owners.
    pub metadata: ObjectMeta,
    /// The spec as the apiserver has it.
    pub spec: JsonText,
    /// `spec.replicas`, by default 1.
    pub replicas: i32,
    /// What its controller says.
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

impl From<Read> for UntypedWorkload {
    fn from(read: Read) -> Self {
        Self::new(read.metadata, read.spec, read.status)
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
    /// What holds it back.
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
    /// Why, in a sentence.
    pub message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Numbers {
    replicas: Option<i32>,
}

impl UntypedWorkload {
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

    /// What holds it back, in its own words: `Blocked` of Berth's kinds, `ReplicaFailure` or a deadline
    /// that has passed (`Progressing` is False) of Kubernetes'.
    pub fn failure(&self) -> Option<&str> {
        const FAILURES: [(&str, &str); 3] = [
            ("Blocked", "True"),
            ("ReplicaFailure", "True"),
            ("Progressing", "False"),
        ];
        let is_failure = |told: &&WorkloadCondition| {
            FAILURES.contains(&(told.type_.as_str(), told.status.as_str()))
        };
        self.status
            .conditions
            .iter()
            .find(is_failure)
            .map(|told| told.message.as_str())
    }
}
