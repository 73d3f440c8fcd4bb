//! The workloads of pods, read one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_runtime::client::Failed;
use berth_workload::budget::expected::Wanted;
use berth_workload::budget::surge::is_released;
use berth_workload::objects::pod::{Owner, Pod};

use super::{ExpectedPods, MOST_OWNERS, Top, Uncounted};

/// How many pods the workloads of pods want, with one read for each workload.
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

    /// How many pods each workload of these pods wants. A pod without a controller, or of a
    /// workload without a scale, counts as one of its own. The result is empty if the number of one
    /// workload is not known: the numbers of the others must not stand in for it.
    ///
    /// # Errors
    /// The apiserver did not say.
    pub(crate) async fn of(
        &mut self,
        namespace: &str,
        pods: &[Arc<Pod>],
    ) -> Result<Wanted, Failed> {
        let mut all = Wanted::new();
        // Released pods have replacements in their ReplicaSet, or will have soon.
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
