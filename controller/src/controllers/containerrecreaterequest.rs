//! The ContainerRecreateRequest controller: which request is next, how far each is, and when it is
//! over. The NodeImage controller sends the orders to daemons.

mod entries;
mod left;
mod read;
mod unreported;

use std::sync::Arc;
use std::time::Duration;

use berth_api::names::label::RECREATE_ACTIVE;
use berth_api::v1beta1::ContainerRecreateRequest;
use berth_api::v1beta1::nodeimage::StoppedContainer;
use berth_kinds::containerrecreaterequest::{
    Snapshot, decide, needs_filling, pod_events, restarts, status, tells_stops_alone,
};
use berth_runtime::client::Failed;
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::object::CONTAINER_RECREATE_REQUESTS;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Outcome, Plan};
use berth_workload::update::recreate::is_over;
use jiff::Timestamp;
use kube::Client;

use crate::budgets::BudgetStores;
use crate::context::Context;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::status::throttle::at_latest;
use crate::stores::custom_resources::requests_of_pod;
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::Watched;
use anyhow::Context as _;
use entries::Entries;
use read::{filled, is_unseen};
use serde_json::json;
use unreported::Unreported;

/// The stores that a decision reads.
pub(crate) struct ContainerRecreateRequestController {
    pub(crate) requests: Arc<Store<Watched<ContainerRecreateRequest>>>,
    pods: Arc<Store<Pod>>,
    images: Arc<Store<Watched<NodeImage>>>,
    left: Arc<Entries>,
    unreported: Arc<Unreported>,
}

impl Controller for ContainerRecreateRequestController {
    const RESOURCE: Resource = CONTAINER_RECREATE_REQUESTS;
    const NAME: &'static str = "containerrecreaterequest";

    fn closed(gates: Gates) -> Option<String> {
        let closed = "feature gate KruiseDaemon is off, so no daemon stops containers: turn it on";
        (!gates.has(Gate::KruiseDaemon)).then(|| closed.to_owned())
    }

    fn new(reader: &mut Reader<'_>) -> Self {
        let (left, unreported) = (Arc::default(), Arc::default());
        Self {
            requests: reader.read(),
            pods: reader.read(),
            images: reader.read(),
            left,
            unreported,
        }
    }

    /// Wakes a request when it, its pod, another request of the pod, or the answer of the pod's
    /// node changes. A request that is gone is woken while a pod is still out of service for it.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, gone, requests) = (queue.clone(), context.clone(), self.requests.clone());
        let unreported = self.unreported.clone();
        self.requests.on_change(move |change| {
            if let Change::Deleted { old } = change {
                gone.expectations.forget(old.uid());
                unreported.forget(old.uid());
            }
            each(change, |request| {
                to.add(Key::of(request));
                // Requests that wait for their turn.
                wake_open(
                    &to,
                    &requests,
                    request.namespace(),
                    &request.0.spec.pod_name,
                );
            });
        });
        let (to, requests, left) = (queue.clone(), self.requests.clone(), self.left.clone());
        self.pods.on_change(move |change| {
            // Entries that a request leaves in a pod's readiness gate may outlast the request.
            left.note(change)
                .into_iter()
                .for_each(|request| to.add(request));
            each(change, |pod| {
                wake_open(&to, &requests, &pod.metadata.namespace, &pod.metadata.name)
            });
        });
        let (to, requests, pods) = (queue.clone(), self.requests.clone(), self.pods.clone());
        self.images.on_change(move |change| {
            // Nearly all changes of NodeImages are about images.
            let is_other = match change {
                Change::Applied {
                    old: Some(old),
                    new,
                } => {
                    old.0.spec.stop_containers != new.0.spec.stop_containers
                        || answers(&old.0) != answers(&new.0)
                }
                Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
                Change::Synced => false,
            };
            if !is_other {
                return;
            }
            each(change, |image| {
                for stop in &image.0.spec.stop_containers {
                    let pod = pods.get(&stop.namespace, &stop.name);
                    if pod.is_some_and(|pod| *pod.spec.node_name == *image.name()) {
                        // A late answer is noted in the request although it is over.
                        let is_concerned = |request: &&Arc<ContainerRecreateRequest>| {
                            is_open(request)
                                || request.metadata.uid.as_deref() == Some(&*stop.request)
                        };
                        let of_pod = requests_of_pod(&requests, &stop.namespace, &stop.name);
                        of_pod
                            .iter()
                            .filter(is_concerned)
                            .for_each(|request| to.add(key(request)));
                    }
                }
            });
        });
    }

    /// One round for one request.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        if let Err(next) = self.let_go_of_gone(context, &key).await {
            return next;
        }
        let Some(request) = self.requests.get(&key.namespace, &key.name) else {
            return Next::Done;
        };
        let request = match context.seen(&self.requests, &*request).await {
            Ok(request) => request,
            Err(next) => return next,
        };
        let pod = self.pods.get(request.namespace(), &request.0.spec.pod_name);
        // An object that cannot be read is not gone.
        if pod.is_none()
            && self
                .pods
                .unreadable(request.namespace(), &request.0.spec.pod_name)
                .is_some()
        {
            return Next::Done;
        }
        if let Some(pod) = &pod
            && let Err(next) = context.has_all_of_others(request.uid(), std::slice::from_ref(pod))
        {
            return next;
        }
        match is_unseen(&context.client, &request.0, pod.as_deref()).await {
            Ok(true) => return Next::After(UNSEEN),
            Ok(false) => {}
            Err(failed) => return Next::Retry(failed.to_string()),
        }
        let mut snapshot = match self.observe(&context.client, &request, context.gates).await {
            Ok(snapshot) => snapshot,
            Err(failed) => return Next::Retry(failed.to_string()),
        };
        let now = Timestamp::now();
        if let Some(pod) = &snapshot.pod {
            let containers = restarts(&snapshot, now);
            snapshot.held = context
                .pod_budgets
                .held_restart(pod, &Owner::of(&*request), &containers)
                .await;
        }
        let plan = decide(&snapshot, now);
        self.carry_out(context, &request, &snapshot, &plan, now)
            .await
    }
}

impl ContainerRecreateRequestController {
    /// Carries out the plan, writes the status, and publishes events of the pod.
    async fn carry_out(
        &self,
        context: &Context,
        request: &Watched<ContainerRecreateRequest>,
        snapshot: &Snapshot,
        plan: &Plan,
        now: Timestamp,
    ) -> Next {
        let ends = |action: &Action| {
            matches!(
                action,
                Action::Delete {
                    resource: CONTAINER_RECREATE_REQUESTS,
                    ..
                }
            )
        };
        let goes = request.terminating() || plan.actions().any(ends);
        let reported = (!goes)
            .then(|| status(snapshot, plan, &Outcome::default(), now))
            .flatten();
        let is_stop = request
            .0
            .status
            .as_ref()
            .zip(reported.as_ref())
            .is_some_and(|(old, new)| tells_stops_alone(old, new));
        let wait = self.unreported.waits(request.uid(), is_stop);
        let reported = reported.filter(|_| wait.is_none());
        let next = |outcome: &Outcome| {
            (!goes && wait.is_none()).then(|| status(snapshot, plan, outcome, now))
        };
        let round = context
            .carry_out(plan, &self.requests, request, (&request.0.status, next))
            .await;
        // An event of the pod for facts that its own status does not say. A repeated event only
        // raises its count.
        if let (Some(reported), Some(pod)) = (reported, &snapshot.pod) {
            let events = Plan {
                events: pod_events(snapshot, &reported),
                ..Plan::default()
            };
            context.executor.act(&events, &Owner::of(&**pod)).await;
        }
        match wait {
            Some(wait) => at_latest(round, wait),
            None => round,
        }
    }

    /// All that a decision about the request reads.
    ///
    /// # Errors
    /// The server's answer, where the pod is read itself.
    pub(crate) async fn observe(
        &self,
        client: &Client,
        request: &Watched<ContainerRecreateRequest>,
        gates: Gates,
    ) -> Result<Snapshot, Failed> {
        let pod = self.pods.get(request.namespace(), &request.0.spec.pod_name);
        let image = pod
            .as_ref()
            .and_then(|pod| self.images.get("", &pod.spec.node_name));
        let filled = if needs_filling(&request.0) {
            Some(filled(client, &request.0).await?)
        } else {
            None
        };
        Ok(Snapshot {
            request: request.0.clone(),
            of_pod: requests_of_pod(
                &self.requests,
                request.namespace(),
                &request.0.spec.pod_name,
            ),
            pod,
            image: image.map(|image| image.0.clone()),
            gates,
            filled,
            held: None,
        })
    }
}

/// Is there anything left to do for it, except to wait until its time runs out?
fn is_open(request: &ContainerRecreateRequest) -> bool {
    let is_active = || {
        request
            .metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(RECREATE_ACTIVE))
    };
    !is_over(request)
        || is_active()
        || request
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|held| !held.is_empty())
}

/// Skips requests that are over: a pod that is restarted every day has many of them.
fn wake_open(
    queue: &Queue<Key>,
    requests: &Store<Watched<ContainerRecreateRequest>>,
    namespace: &str,
    pod: &str,
) {
    requests_of_pod(requests, namespace, pod)
        .iter()
        .filter(|request| is_open(request))
        .for_each(|request| queue.add(key(request)));
}

fn key(request: &ContainerRecreateRequest) -> Key {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    Key::new(
        &part(&request.metadata.namespace),
        &part(&request.metadata.name),
    )
}

fn answers(image: &NodeImage) -> &[StoppedContainer] {
    image
        .status
        .as_ref()
        .map(|status| status.stopped_containers.as_slice())
        .unwrap_or_default()
}

/// A pod that the store does not have yet wakes the request when it comes. The request is
/// reconciled after this time at the latest.
const UNSEEN: Duration = Duration::from_secs(1);

impl Explains for ContainerRecreateRequestController {
    type Object = ContainerRecreateRequest;

    fn reads_nodes(&self) -> bool {
        false
    }

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(request) = self.requests.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let mut snapshot = self
            .observe(&look.client, &request, look.gates)
            .await
            .context("cannot read the pod")?;
        let now = Timestamp::now();
        if let Some(pod) = &snapshot.pod {
            let containers = restarts(&snapshot, now);
            snapshot.held = look
                .budgets(stores)
                .held_restart(pod, &Owner::of(&*request), &containers)
                .await;
        }
        let plan = decide(&snapshot, now);
        let status = status(&snapshot, &plan, &Outcome::default(), now);
        Ok(look.explained::<Self>(plan, &json!(status), &json!(snapshot.request.status)))
    }
}
