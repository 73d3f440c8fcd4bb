//! A new pod of a job.

use crate::broadcastjob::BROADCAST_JOBS;
use berth_api::kinds::broadcastjob::names::label::{
    BROADCASTJOB_CONTROLLER_UID, BROADCASTJOB_NAME,
};
use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_workload::objects::node::placement::pin_to_node;
use berth_workload::objects::owner::controller_reference;
use berth_workload::update::launch;
use berth_workload::update::podset::new_pod;
use serde_json::{Value, json};

/// The pod for one node, from the job's template: with the labels that select a job's pods, without
/// readiness gates, and with the template's tolerations alone.
pub(super) fn new_pod(job: &BroadcastJob, template: &Value, name: &str, node: &str) -> Value {
    let owner = controller_reference(&BROADCAST_JOBS, &job.metadata);
    let mut metadata = new_pod::metadata(template, name, job.metadata.namespace.as_deref(), owner);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels[BROADCASTJOB_NAME] = json!(job.metadata.name);
    labels[BROADCASTJOB_CONTROLLER_UID] = json!(job.metadata.uid);
    let spec = template.get("spec").cloned().unwrap_or_default();
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    pin_to_node(&mut pod, node);
    if let Ok(Some(priorities)) = launch::priorities(template) {
        launch::order(&mut pod, name, priorities.into_iter().map(Some));
    }
    pod
}
