//! Messages about pods that are not available yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::pod::why_not_ready;
use crate::objects::pod::lifecycle;
use crate::objects::pod::{Availability, Pod, availability};
use crate::plan::{Plan, Waiting};

/// Adds the reason of each unavailable pod to the plan, unless the plan has one. Schedules another
/// decision for the time when the first ready pod becomes available, because no watch event
/// announces that time.
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
