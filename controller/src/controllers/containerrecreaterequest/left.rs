//! Which pods have entries of requests in their readiness gates, so that entries of a request that
//! is gone are found.

use berth_kinds::containerrecreaterequest::let_go_of_gone;
use berth_runtime::Key;
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::PODS;
use jiff::Timestamp;

use super::ContainerRecreateRequestController;
use super::read::read;
use crate::context::{self, Context};

impl ContainerRecreateRequestController {
    /// Removes the entries that a deleted request of this name left, so that its pods serve again.
    ///
    /// # Errors
    /// When to look again.
    pub(super) async fn let_go_of_gone(&self, context: &Context, key: &Key) -> Result<(), Next> {
        for name in self.left.of(key) {
            // An object that cannot be read is not gone.
            if self
                .requests
                .unreadable(&key.namespace, &key.name)
                .is_some()
            {
                return Ok(());
            }
            let request = self.requests.get(&key.namespace, &key.name);
            let plan = |pod: &Pod| {
                let_go_of_gone(
                    pod,
                    &key.name,
                    request.as_ref().map(|request| &*request.0),
                    Timestamp::now(),
                )
            };
            let is_left = |pod: &Pod| plan(pod).actions().next().is_some();
            let Some(seen) = self
                .pods
                .get(&key.namespace, &name)
                .filter(|pod| is_left(pod))
            else {
                continue;
            };
            context.settled(&seen.metadata.uid).await?;
            // A request that removed its entry itself may be gone from one store before the other
            // shows that.
            let live = read(&context.client, &PODS, &key.namespace, &name).await;
            let live = live.map_err(|failed| Next::Retry(failed.to_string()))?;
            let Some(Ok(pod)) = live.map(|pod| Pod::read(pod.get())) else {
                continue;
            };
            let plan = plan(&pod);
            let outcome = context.executor.act(&plan, &Owner::of(&pod)).await;
            match context::next(&plan, &outcome, Ok(false)) {
                Next::Done => {}
                next => return Err(next),
            }
        }
        Ok(())
    }
}
