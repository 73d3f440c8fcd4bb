//! One round for one SidecarSet.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetStatus};
use berth_kinds::sidecarset::{
    Snapshot, annotations_to_read, blocked_event, decide, keeps_annotations, pod_events, status,
};
use berth_runtime::client::{self, Failed};
use berth_runtime::driver::Next;
use berth_runtime::driver::turn;
use berth_runtime::events::Owner;
use berth_runtime::{Object, object};
use berth_workload::plan::{Event, Outcome, Plan, Target};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde::Deserialize;

use super::SidecarSetController;
use crate::context::{Context, LARGE};
use crate::status::throttle::{at_latest, nothing_is_urgent};
use crate::stores::watched::Watched;

/// The wait after a pod whose change failed, until the next pod's turn.
const ANOTHERS_TURN: Duration = Duration::from_secs(1);

impl SidecarSetController {
    /// Decides on one SidecarSet, carries the plan out, and publishes events.
    pub(super) async fn round(&self, context: &Context, set: &Watched<SidecarSet>) -> Next {
        let now = Timestamp::now();
        let is_large = is_large(&set.0);
        let annotations = match annotations(self, context, set, now).await {
            Ok(annotations) => annotations,
            Err(failed) => return Next::Retry(failed.to_string()),
        };
        let (injection_calls, fruitless, again) = self.probed(context, &set.0).await;
        let decided = || {
            let snapshot = Snapshot {
                annotations,
                injection_calls,
                fruitless,
                ..self.observe(set, &context.injection)
            };
            context.has_all_of_others(set.uid(), &snapshot.pods)?;
            let plan = decide(&snapshot, now);
            Ok((snapshot, plan))
        };
        let (snapshot, plan): (Snapshot, Plan) = match turn::decide(is_large, decided).await {
            Ok(decided) => decided,
            Err(next) => return next,
        };
        let (events_to_publish, turns) = (Mutex::default(), Mutex::new(None));
        let status = |outcome: &Outcome| {
            let after = snapshot.turns.after(&snapshot, &plan, outcome, now);
            let new = turn::alone(is_large, || status(&snapshot, &plan, outcome, now));
            *events_to_publish.lock() =
                events(set, &snapshot, &new, pod_events(&after, &plan, outcome));
            *turns.lock() = Some(after);
            Some(Some(new))
        };
        let next = self
            .status_throttle
            .carry_out(
                context,
                &plan,
                &self.sets,
                set,
                (&set.0.status, status, nothing_is_urgent),
            )
            .await;
        for (of, event) in events_to_publish.into_inner() {
            let events = Plan {
                events: vec![event],
                ..Plan::default()
            };
            context.executor.act(&events, &of).await;
        }
        let turns = turns.into_inner();
        let is_anothers_turn = turns.is_some_and(|turns| self.turns.note(set, turns));
        next_round(next, again, is_anothers_turn)
    }
}

/// When the next round comes. A pod that failed is set aside, and no other pod waits for its longer
/// back-off.
fn next_round(next: Next, again: Option<Duration>, is_anothers_turn: bool) -> Next {
    let again = again
        .into_iter()
        .chain(is_anothers_turn.then_some(ANOTHERS_TURN))
        .min();
    match (next, again) {
        (Next::Retry(_) | Next::Again(_), Some(again)) if is_anothers_turn => Next::After(again),
        (next, Some(again)) => at_latest(next, again),
        (next, None) => next,
    }
}

/// Whether a decision takes so long that it should run on a thread of its own.
fn is_large(set: &SidecarSet) -> bool {
    let matched = set.status.as_ref().map_or(0, |status| status.matched_pods);
    usize::try_from(matched).is_ok_and(|matched| matched > LARGE)
}

/// The events of the SidecarSet and of its pods, with their objects.
fn events(
    set: &Watched<SidecarSet>,
    snapshot: &Snapshot,
    new: &SidecarSetStatus,
    of_pods: Vec<(Target, Event)>,
) -> Vec<(Owner, Event)> {
    let of_set = blocked_event(snapshot, new).map(|event| (Owner::of(set), event));
    let of_pods = of_pods.into_iter().map(|(pod, event)| {
        let owner = Owner {
            resource: object::PODS,
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
        };
        (owner, event)
    });
    of_set.into_iter().chain(of_pods).collect()
}

/// By uid: the annotations of the pods that are updated next, if their new containers depend on
/// them.
async fn annotations(
    reads: &SidecarSetController,
    context: &Context,
    set: &Watched<SidecarSet>,
    now: Timestamp,
) -> Result<BTreeMap<Box<str>, BTreeMap<String, String>>, Failed> {
    #[derive(Deserialize)]
    struct Annotated {
        metadata: ObjectMeta,
    }
    let mut all = BTreeMap::new();
    if !keeps_annotations(&set.0) {
        return Ok(all);
    }
    for pod in annotations_to_read(&reads.observe(set, &context.injection), now) {
        let path = object::PODS.path(&pod.metadata.namespace, &pod.metadata.name)?;
        let read: Annotated = client::get(&context.client, &path).await?;
        if read.metadata.uid.as_deref() == Some(&*pod.metadata.uid) {
            let mut annotations = read.metadata.annotations.unwrap_or_default();
            annotations.retain(|key, _| {
                set.0
                    .spec
                    .patch_pod_metadata
                    .iter()
                    .any(|it| it.annotations.contains_key(key))
            });
            all.insert(pod.metadata.uid.clone(), annotations);
        }
    }
    Ok(all)
}
