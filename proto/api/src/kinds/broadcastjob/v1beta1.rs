//! BroadcastJob: one pod on each node, once.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::names::label::{BROADCASTJOB_CONTROLLER_UID, BROADCASTJOB_NAME};
use crate::fields::condition::status_condition;
use crate::fields::template::PodTemplate;
pub use crate::kinds::imagepulljob::v1beta1::CompletionPolicyType;
use crate::schema::absent::{is_false, is_zero_i32};
use crate::schema::field::{checks, defaults_to, int_or_percent, with};
use crate::schema::rules::{completes_or_has_no_limits, label_name};

/// Which nodes may run a pod at a time when nothing is said: all.
pub const DEFAULT_PARALLELISM: i32 = i32::MAX;
/// The longest that the annotation [`super::names::annotation::WAIT_AFTER_NODE`] can ask to wait.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(24);

/// What runs on each node, on how many nodes at a time, and when that is over.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "BroadcastJob",
    namespaced,
    status = "BroadcastJobStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "bcj",
    doc = "BroadcastJob runs a pod to its end on each node, once. A node that joins gets its pod too, as long as the job has not ended.",
    validation = label_name(63, "its pods have a label with it"),
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".status.desired", "description": "Nodes that get a pod, or have had it."}"#,
    printcolumn = r#"{"name": "Active", "type": "integer", "jsonPath": ".status.active", "description": "Pods that have not ended."}"#,
    printcolumn = r#"{"name": "Succeeded", "type": "integer", "jsonPath": ".status.succeeded", "description": "Nodes whose pod has succeeded."}"#,
    printcolumn = r#"{"name": "Failed", "type": "integer", "jsonPath": ".status.failed", "description": "Nodes whose pod has failed."}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the creation."}"#,
    printcolumn = r#"{"name": "BLOCKED", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Blocked')].reason", "description": "The reason of the condition Blocked, which is there as long as something holds the object back."}"#,
)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobSpec {
    /// On how many nodes a pod runs at a time: a number, or a percentage of the desired nodes,
    /// rounded up. With 0 no pod is created. Defaults to 2147483647, all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = defaults_to(DEFAULT_PARALLELISM), transform = int_or_percent)]
    pub parallelism: Option<IntOrString>,
    /// The pods that are made. Its fields are those of a pod, see `kubectl explain pod.spec`; any
    /// of them may be used, but spec.restartPolicy must be Never or OnFailure. Nodes that have not
    /// begun get what is changed here later.
    #[schemars(transform = with(job_template()))]
    pub template: PodTemplate,
    /// When the job is done.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    #[schemars(transform = checks([completes_or_has_no_limits()]))]
    pub completion_policy: CompletionPolicy,
    /// No pod is created as long as this is set; those that run go on. failurePolicy Pause sets it
    /// when a pod has failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// What a failed pod means for the job.
    #[serde(default)]
    #[schemars(transform = defaults_to(json!({})))]
    pub failure_policy: FailurePolicy,
}

/// When a job is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPolicy {
    /// Always: done when the pods of all desired nodes have ended. Never: the job stays, and nodes
    /// that join later get their pod too. Defaults to Always.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("Always"))]
    pub type_: CompletionPolicyType,
    /// Seconds after startTime at which the job fails if it has not ended, and the pods that run
    /// are deleted. It is not judged while the job is paused. Only with Always.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i32::MAX))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after which the finished job is deleted, with its pods; 0 deletes it at once.
    /// Without it the job stays. Only with Always.
    #[serde(
        rename = "ttlSecondsAfterFinished",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// What a failed pod means for the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// FailFast: the job has failed, and the pods that run are deleted. Continue: the other nodes
    /// get their pods all the same. Pause: the job is paused until somebody takes spec.paused back,
    /// which accepts the failures so far. Defaults to FailFast.
    #[serde(default, rename = "type")]
    #[schemars(transform = defaults_to("FailFast"))]
    pub type_: FailurePolicyType,
    /// With restartPolicy OnFailure: a pod has failed, and is stopped, when its containers have
    /// restarted more often than this together. With 0, that is at the first restart.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub restart_limit: i32,
}

/// What a failed pod means for the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicyType {
    /// The job has failed.
    #[default]
    FailFast,
    /// Nothing.
    Continue,
    /// The job is paused.
    Pause,
}

/// How far the job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobStatus {
    /// How the job ended, and what holds it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
    /// When the controller began with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Pods that have not ended.
    #[serde(default)]
    pub active: i32,
    /// Nodes whose pod has succeeded.
    #[serde(default)]
    pub succeeded: i32,
    /// Nodes whose pod has failed.
    #[serde(default)]
    pub failed: i32,
    /// Nodes that get a pod, or have had it.
    #[serde(default)]
    pub desired: i32,
    /// running, paused, completed or failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// For each node whose pod has ended: the result (+ succeeded, - failed, ! failed and accepted
    /// by resuming) and a hash of the node's uid. So no node gets a second pod, even after the
    /// deletion of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_nodes: Vec<String>,
    /// When the controller last saw that a pod had ended, with the annotation
    /// apps.kruise.io/wait-after-node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end_time: Option<Time>,
}

/// Values of the phase.
pub mod phase {
    /// Pods run, or are to run.
    pub const RUNNING: &str = "running";
    /// No pod is created.
    pub const PAUSED: &str = "paused";
    /// The pods of all desired nodes have ended.
    pub const COMPLETED: &str = "completed";
    /// A pod, or the deadline, has ended the job.
    pub const FAILED: &str = "failed";
}

/// How the job ended, or what holds it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCondition {
    /// Complete, Failed or Blocked.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When the controller last looked at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The time that the value of the annotation [`super::names::annotation::WAIT_AFTER_NODE`] asks
/// for.
///
/// # Errors
/// What is wrong with it, and the remedy.
pub fn wait_after_node(text: &str) -> Result<SignedDuration, &'static str> {
    let time = text.parse::<SignedDuration>().ok();
    time.filter(|time| !time.is_negative() && *time <= LONGEST_WAIT)
        .ok_or(
            "is no time from 0s to 24h: write it like 30s, 5m or 1h30m, or remove the annotation",
        )
}

/// Schema of a template whose pods end.
fn job_template() -> Value {
    let labels = [BROADCASTJOB_NAME, BROADCASTJOB_CONTROLLER_UID];
    let preset: Vec<_> = labels
        .iter()
        .map(|label| format!("self[?'{label}'].orValue('') == ''"))
        .collect();
    let message = format!(
        "cannot have {} or {}, by which a job's pods are found: remove them",
        labels[0], labels[1]
    );
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["spec"],
        "properties": {
            "metadata": {
                "description": "Labels and annotations of the pods.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"labels": {
                    "description": "Labels of the pods.",
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "x-kubernetes-validations": [{"rule": preset.join(" && "), "message": message}],
                }},
            },
            "spec": {
                "description": "The pods' spec: see `kubectl explain pod.spec` for its fields, all of which may be used.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "required": ["restartPolicy"],
                "properties": {"restartPolicy": {
                    "type": "string",
                    "description": "Never, or OnFailure. A job's pods are to end, so there is no other.",
                    "x-kubernetes-validations": [{
                        "rule": "self in ['Never', 'OnFailure']",
                        "messageExpression": "'is \"%s\", but the pods of a BroadcastJob are to end: set it to Never or OnFailure'.format([self])",
                    }],
                }},
            },
        },
    })
}

status_condition!(JobCondition with last_probe_time);

#[cfg(test)]
mod tests;
