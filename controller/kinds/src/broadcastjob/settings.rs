//! A job's spec, checked.

use berth_api::IntOrString;
use berth_api::kinds::broadcastjob::names::annotation::WAIT_AFTER_NODE;
use berth_api::kinds::broadcastjob::names::label::{
    BROADCASTJOB_CONTROLLER_UID, BROADCASTJOB_NAME,
};
use berth_api::v1beta1::broadcastjob::{
    BroadcastJob, CompletionPolicyType, DEFAULT_PARALLELISM, FailurePolicyType, wait_after_node,
};
use berth_workload::objects::intstr::{self, Round};
use berth_workload::plan::Refusal;
use berth_workload::update::launch;
use jiff::SignedDuration;
use serde_json::Value;

use super::place::Where;
use super::workload;

/// The longest name of a job, because the name is the value of a label of its pods.
const LONGEST_NAME: usize = 63;

/// The settings that a job asks for.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) template: Value,
    pub(super) target: Where,
    parallelism: IntOrString,
    /// Whether the job ends when the pods of all nodes have ended.
    pub(super) ends: bool,
    pub(super) failure: FailurePolicyType,
    /// How often the containers of a pod may restart, if they restart at all.
    pub(super) restart_limit: Option<i64>,
    /// The time from the job's start, only with policy Always.
    pub(super) deadline: Option<SignedDuration>,
    /// The time from the end of a pod to the next creation.
    pub(super) wait: Option<SignedDuration>,
}

impl Settings {
    /// How many pods may run at a time.
    pub(super) fn parallelism(&self, desired: usize) -> usize {
        intstr::resolve(&self.parallelism, desired, Round::Up).unwrap_or(0)
    }
}

/// Reads the spec.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub(super) fn settings(job: &BroadcastJob) -> Result<Settings, Refusal> {
    read(job).map_err(|(field, problem)| Refusal {
        reason: "InvalidSpec",
        message: format!("{}: {field}: {problem}", workload(job)),
    })
}

fn read(job: &BroadcastJob) -> Result<Settings, (String, String)> {
    let spec = &job.spec;
    let name = job.metadata.name.as_deref().unwrap_or_default();
    if name.len() > LONGEST_NAME || name.contains('.') {
        let problem = format!(
            "{name:?} is the value of a label of the pods; use at most {LONGEST_NAME} of a-z, 0-9 and -"
        );
        return Err(("metadata.name".to_owned(), problem));
    }
    let parallelism = spec
        .parallelism
        .clone()
        .unwrap_or(IntOrString::Int(DEFAULT_PARALLELISM));
    intstr::resolve(&parallelism, 1, Round::Up)
        .map_err(|problem| ("spec.parallelism".to_owned(), problem))?;
    let annotations = job.metadata.annotations.as_ref();
    let wait = annotations
        .and_then(|annotations| annotations.get(WAIT_AFTER_NODE))
        .filter(|text| !text.is_empty());
    let wait = wait
        .map(|text| wait_after_node(text).map_err(|problem| format!("{text:?} {problem}")))
        .transpose();
    let wait =
        wait.map_err(|problem| (format!("metadata.annotations[{WAIT_AFTER_NODE}]"), problem))?;
    let template = spec.template.value();
    let restarts = match template["spec"]["restartPolicy"].as_str() {
        Some("Never") => false,
        Some("OnFailure") => true,
        other => {
            let problem = format!(
                "is {:?}, but the pods of a job are to end; set it to Never or OnFailure",
                other.unwrap_or("")
            );
            return Err(("spec.template.spec.restartPolicy".to_owned(), problem));
        }
    };
    for label in [BROADCASTJOB_NAME, BROADCASTJOB_CONTROLLER_UID] {
        if let Some(value) = spec.template.label(label).filter(|value| !value.is_empty()) {
            let problem = format!("is {value:?}, but the pods of a job are found by it; remove it");
            return Err((format!("spec.template.metadata.labels[{label}]"), problem));
        }
    }
    launch::priorities(&template).map_err(|(field, problem)| (format!("spec.{field}"), problem))?;
    let (completion, failure) = (&spec.completion_policy, &spec.failure_policy);
    let ends = completion.type_ == CompletionPolicyType::Always;
    Ok(Settings {
        target: Where::of(&template),
        parallelism,
        ends,
        failure: failure.type_,
        restart_limit: restarts.then_some(i64::from(failure.restart_limit)),
        deadline: completion
            .active_deadline_seconds
            .filter(|_| ends)
            .map(SignedDuration::from_secs),
        wait,
        template,
    })
}
