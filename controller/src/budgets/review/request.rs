//! The request for a pod, in the form that budgets decide on.

use std::sync::Arc;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_runtime::client::{self, Failed};
use berth_webhook::pods::{Disruption, NotYet};
use berth_workload::budget::disruption::passes;
use berth_workload::budget::ledger::Request;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{NODES, PODS};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::budgets::ledger_queue::queued::QueuedRequest;
use crate::budgets::review::disruption::{is_as_shown, is_meant, operation, serves};
use crate::budgets::{BudgetStores, PodBudgets};

impl PodBudgets {
    /// Whether no budget may refuse it.
    pub(in crate::budgets) fn passes(&self, disruption: &Disruption) -> bool {
        let (operation, pod) = (
            operation(disruption),
            disruption.object.as_ref().and_then(|pod| pod.as_ref().ok()),
        );
        passes(
            operation,
            (&disruption.user, &disruption.groups),
            &self.settings.exempt,
            pod,
        )
    }

    /// The pod that a request means, as the store or the apiserver has it, or why it cannot be
    /// read; `None` if no pod has that name and uid. A review is not trusted, because any client
    /// that learned the path may have sent it. The apiserver carries a request out only on the
    /// version that it has shown, so the answer about an older version does not matter.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub(in crate::budgets) async fn pod(
        &self,
        stores: &BudgetStores,
        disruption: &Disruption,
    ) -> Result<Option<Result<Arc<Pod>, String>>, NotYet> {
        if let Some(Err(why)) = &disruption.object {
            return Ok(Some(Err(why.clone())));
        }
        let stored = stores.pods.get(&disruption.namespace, &disruption.pod);
        if let Some(stored) = stored.filter(|stored| is_as_shown(&stored.metadata, disruption)) {
            return Ok(Some(Ok(stored)));
        }
        let path = match PODS.path(&disruption.namespace, &disruption.pod) {
            Ok(path) => path,
            // Reviews of an apiserver always have the name, so this one is from another client and
            // has no effect.
            Err(invalid) => return Ok(Some(Err(format!("the review names no pod: {invalid}")))),
        };
        let live = self.live(&path).await?;
        self.catalog
            .missing
            .looked(&disruption.namespace, &disruption.pod, live.is_some());
        let Some(text) = live else { return Ok(None) };
        let read = Pod::read(text.get()).map(Arc::new);
        let is_meant = read
            .as_ref()
            .is_ok_and(|pod| is_meant(&pod.metadata, disruption));
        Ok(Some(read).filter(|read| is_meant || read.is_err()))
    }

    /// A pod as the apiserver has it; `None` if there is none.
    async fn live(&self, path: &str) -> Result<Option<Box<RawValue>>, NotYet> {
        match client::get(&self.parts.client, path).await {
            Ok(text) => Ok(Some(text)),
            Err(Failed { code: 404, .. }) => Ok(None),
            Err(_) => Err(NotYet("pods")),
        }
    }

    /// The request in the form that ledgers use.
    ///
    /// # Errors
    /// The apiserver did not say whether the pod's node is there.
    pub(in crate::budgets) async fn request(
        &self,
        stores: &BudgetStores,
        pod: &Pod,
        operation: ProtectedOperation,
        holder: String,
    ) -> Result<Request, NotYet> {
        Ok(Request {
            pod: pod.metadata.name.to_string(),
            uid: pod.metadata.uid.to_string(),
            operation,
            holder,
            is_available: self.serves(stores, pod).await?,
            generation: operation.is_change().then_some(pod.metadata.generation),
            container_ids: Vec::new(),
            resizes: false,
            grant: None,
            is_again: false,
            is_repair: false,
            passes: false,
        })
    }

    /// The request by the pod as the apiserver has it now. A pod that is gone stays as it was.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub(in crate::budgets) async fn read_again(
        &self,
        queued: &QueuedRequest,
    ) -> Result<QueuedRequest, NotYet> {
        let (mut queued, metadata) = (queued.clone(), &queued.pod.metadata);
        let (Some(stores), Ok(path)) = (
            self.parts.stores.as_ref(),
            PODS.path(&metadata.namespace, &metadata.name),
        ) else {
            return Ok(queued);
        };
        if let Some(text) = self.live(&path).await?
            && let Ok(pod) = Pod::read(text.get())
            && pod.metadata.uid == metadata.uid
        {
            queued.request.is_available = self.serves(stores, &pod).await?;
            queued.pod = Arc::new(pod);
        }
        Ok(queued)
    }

    /// Whether a pod serves. A pod on a node that does not exist does not count and may go. Only
    /// the apiserver can say whether a node exists.
    async fn serves(&self, stores: &BudgetStores, pod: &Pod) -> Result<bool, NotYet> {
        let node = &pod.spec.node_name;
        let knows_node = !stores.nodes.is_synced() || stores.nodes.get("", node).is_some();
        if let Some(serves) = serves(pod, knows_node, Timestamp::now()) {
            return Ok(serves);
        }
        // A name that is no valid node name belongs to no node.
        let Ok(path) = NODES.path("", node) else {
            return Ok(false);
        };
        match client::get::<IgnoredAny>(&self.parts.client, &path).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.is_not_found() => Ok(false),
            Err(_) => Err(NotYet("nodes")),
        }
    }
}
