//! What pods wait for that are not available yet, in words.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::pod::why_not_ready;
use crate::objects::pod::lifecycle;
use crate::objects::pod::{Availability, Pod, availability};
use crate::plan::{Plan, Waiting};

/// Says of each pod that is not available why, unless the plan says so already; and looks again when the first of those that are
/// ready has been so for long enough: nothing announces that.
pub fn tell_of_unavailable(
    pods: &[Arc<Pod>],
    min_ready_seconds: i32,
    plan: &mut Plan,
    now: Timestamp,
) {
    let mut soonest: Option<SignedDuration> = None;
    let mut unnamed = Vec::new();
    let named: BTreeSet<&str> = plan.waiting.iter().map(|waiting| &*waiting.pod).collect();
    for pod in pods {
        let reason = match availability(pod, min_ready_seconds, now) {
            Availability::Available => continue,
            Availability::After(wait) => {
                soonest = Some(soonest.map_or(wait, |old| old.min(wait)));
                format!(
                    "is ready, and available in {} s (minReadySeconds)",
                    wait.as_secs() + 1
                )
            }
            Availability::Held => format!("is in lifecycle state {}", lifecycle::state(pod)),
            Availability::NotReady => why_not_ready(pod),
        };
        if !named.contains(&*pod.metadata.name) {
            unnamed.push(Waiting {
                pod: pod.metadata.name.to_string(),
                reason,
            });
        }
    }
    plan.waiting.append(&mut unnamed);
    if let Some(wait) = soonest {
        plan.look_again_after(wait);
    }
}
