//! ContainerRecreateRequest: containers of a pod that are restarted in place, one after the other.
//!
//! The node's daemon stops the containers, because the node's NodeImage lists them
//! ([`berth_workload::update::recreate::stop`]). This module decides which request comes next,
//! whether the pod is taken out of service first, how far each container is, and when the request
//! is over.

mod blocked;
mod decide;
mod decision;
mod events;
mod left;
mod silence;
mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::ContainerRecreateRequest;
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::update::recreate::{Course, current, pod_uid};
use serde_json::Value;

pub use decide::decide;
pub use decision::{needs_filling, restarts};
pub use events::pod_events;
pub use left::{entries, let_go_of_gone};
pub use status::{status, tells_stops_alone};

/// All that a decision about one request reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The request.
    pub request: Arc<ContainerRecreateRequest>,
    /// The present pod of the name that the request has.
    pub pod: Option<Arc<Pod>>,
    /// The NodeImage of that pod's node.
    pub image: Option<Arc<NodeImage>>,
    /// All requests that name a pod of this name, this one included.
    pub of_pod: Vec<Arc<ContainerRecreateRequest>>,
    /// Feature gates.
    pub gates: Gates,
    /// For a request that was not filled in when it was created ([`needs_filling`]): the patch that
    /// fills it in, or the reason for its refusal.
    pub filled: Option<Result<Value, String>>,
    /// The reason why a budget of the pod does not let the request begin ([`restarts`]).
    pub held: Option<String>,
}

impl Snapshot {
    /// Namespace and name, for messages.
    fn name(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!(
            "{}/{}",
            part(&self.request.metadata.namespace),
            part(&self.request.metadata.name)
        )
    }

    fn course<'a>(&'a self, pod: &'a Pod) -> Course<'a> {
        Course {
            request: &self.request,
            pod,
            image: self.image.as_deref(),
        }
    }

    /// The request whose turn it is.
    fn current(&self, pod: &Pod) -> Option<&ContainerRecreateRequest> {
        current(
            self.of_pod.iter().map(|request| &**request),
            pod,
            self.image.as_deref(),
        )
    }
}

/// The request's pod, if it is still the same pod and is not being deleted.
fn pod(snapshot: &Snapshot) -> Option<&Pod> {
    let is_the_one = |pod: &&Pod| {
        pod_uid(&snapshot.request) == Some(&*pod.metadata.uid)
            && pod.metadata.deletion_timestamp.is_none()
    };
    snapshot.pod.as_deref().filter(is_the_one)
}
