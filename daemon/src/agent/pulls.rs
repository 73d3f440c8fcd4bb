//! The pulls of one node: starting, counting and cancelling them.

use super::jobs::{self, Done};
use crate::pulls::pull::Try;
use crate::runtime::Runtime;
use crate::tasks::{Key, Outcome, Plan};
use berth_api::v1beta1::nodeimage::NodeImageSpec;
use std::sync::Arc;
use tracing::{info, warn};

use super::Agent;

impl Agent {
    pub(super) fn count(&self, attempt: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Pulled(image) => {
                self.metrics.pulled("succeeded");
                info!(attempt, id = image.id, bytes = image.bytes, "pulled");
            }
            Outcome::PulledAlthough(image, problem) => {
                self.metrics.pulled("succeeded");
                warn!(
                    attempt,
                    id = image.id,
                    bytes = image.bytes,
                    problem,
                    "pulled, although something is wrong"
                );
            }
            Outcome::Failed(why) => {
                self.metrics.pulled("failed");
                warn!(attempt, why, "a pull failed");
            }
            Outcome::Held(why) => {
                self.metrics.pulled("held");
                warn!(attempt, why, "a pull is held");
            }
        }
    }

    pub(super) fn act(&mut self, plan: Plan, spec: &NodeImageSpec, runtime: &Arc<Runtime>) {
        self.cancel(&plan.cancel);
        for key in plan.look {
            tokio::spawn(jobs::look(runtime.clone(), key, self.done.clone()));
        }
        for start in plan.start {
            let attempt = start.attempt;
            info!(image = start.key.reference(), attempt, "pulling");
            let pull = self.attempt(start.key, attempt, spec, runtime.clone());
            let done = self.done.clone();
            let job = async move {
                // The send fails only when the daemon ends.
                let _ = done.send(Done::Ended(attempt, pull.run().await)).await;
            };
            self.pulls.insert(attempt, tokio::spawn(job));
        }
    }

    pub(super) fn attempt(
        &self,
        key: Key,
        attempt: u64,
        spec: &NodeImageSpec,
        runtime: Arc<Runtime>,
    ) -> Try {
        let image = spec.images.get(&key.image);
        Try {
            attempt,
            sandbox: image.and_then(|image| image.sandbox_of(&key.tag)).cloned(),
            has_secrets: image
                .and_then(|image| image.secrets_of(&key.tag))
                .is_some_and(|secrets| !secrets.is_empty()),
            key,
            runtime,
            secrets: self.settings.secrets.clone(),
            progress: self.progress.clone(),
        }
    }

    pub(super) fn cancel(&mut self, attempts: &[u64]) {
        for attempt in attempts {
            if let Some(pull) = self.pulls.remove(attempt) {
                info!(attempt, "pull cancelled");
                pull.abort();
                self.metrics.pulled("cancelled");
            }
        }
    }
}
