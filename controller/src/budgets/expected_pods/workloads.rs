//! The workloads of pods, asked one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_runtime::client::Failed;
use berth_workload::budget::expected::Wanted;
use berth_workload::budget::surge::is_released;
use berth_workload::objects::pod::{Owner, Pod};

use super::{ExpectedPods, MOST_OWNERS, Top, Uncounted};

/// What the workloads of pods want, each asked for once.
pub(crate) struct Workloads<'a> {
    by: &'a ExpectedPods,
    /// By the uid of a pod's controller.
    tops: BTreeMap<String, Top>,
}

impl<'a> Workloads<'a> {
    pub(crate) fn new(by: &'a ExpectedPods) -> Self {
        Self {
            by,
            tops: BTreeMap::new(),
        }
    }

    /// How many pods each workload of these pods wants. A pod that is nobody's, or of a workload without a scale, is by itself. None at all
    /// where one of them cannot be asked: what is not known of one must not be made up for by the others.
    ///
    /// # Errors
    /// The apiserver did not say.
    pub(crate) async fn of(
        &mut self,
        namespace: &str,
        pods: &[Arc<Pod>],
    ) -> Result<Wanted, Failed> {
        let mut all = Wanted::new();
        // Those that were taken from their ReplicaSet have others in their place, or soon.
        for pod in pods.iter().filter(|pod| !is_released(&pod.metadata)) {
            let top = match pod.metadata.controller() {
                Some(owner) => self.top(namespace, owner).await?,
                None => Top::Unscaled,
            };
            let (uid, wanted) = match top {
                Top::Wants(uid, wanted) => (uid, wanted),
                Top::Unscaled if pod.is_active() => (pod.metadata.uid.to_string(), 1),
                Top::Unscaled | Top::Gone => continue,
                Top::Unknown => return Ok(Wanted::new()),
            };
            all.insert(uid, wanted);
        }
        Ok(all)
    }

    async fn top(&mut self, namespace: &str, owner: &Owner) -> Result<Top, Failed> {
        if let Some(known) = self.tops.get(&*owner.uid) {
            return Ok(known.clone());
        }
        if self.tops.len() >= MOST_OWNERS {
            return Ok(Top::Unknown);
        }
        let top = match self.by.top_that_wants(namespace, owner.clone()).await {
            Ok(top) => top,
            Err(Uncounted::Fault(_)) => Top::Unknown,
            Err(Uncounted::Silent(failed)) => return Err(failed),
        };
        self.tops.insert(owner.uid.to_string(), top.clone());
        Ok(top)
    }
}
