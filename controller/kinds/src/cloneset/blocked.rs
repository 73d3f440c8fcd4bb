//! The condition `Blocked` of a CloneSet.

use berth_api::v1beta1::cloneset::CloneSetStatus;
use berth_workload::blocked::{self, Cause, Grade};
use berth_workload::images::prepull;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::update::podset::overlap;
use jiff::Timestamp;
use serde_json::json;

use super::settings::beside_template;
use super::{Snapshot, ended};

/// All that blocks the CloneSet.
pub(super) fn causes(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    new: &CloneSetStatus,
    now: Timestamp,
) -> Vec<Cause> {
    let view = snapshot.view();
    let mut causes = blocked::of_writes(&view, plan, outcome, now);
    let hazard = overlap::message(&view.workload, &snapshot.overlapping);
    let hazard = hazard.map(|message| Cause::new(Grade::Hazard, overlap::REASON, message, now));
    let no_budget = no_budget(snapshot, new)
        .map(|message| Cause::new(Grade::Refused, "NoBudget", message, now));
    causes.extend(hazard.into_iter().chain(no_budget));
    causes.extend(ended::failing(snapshot, now));
    causes.extend(prepull::unserved(&view.workload, snapshot.gates, now));
    causes.extend(blocked::of_pods(&view, plan, now));
    causes
}

/// Numbers that let no pod be updated, or created, ever.
fn no_budget(snapshot: &Snapshot, status: &CloneSetStatus) -> Option<String> {
    let wanted = beside_template(snapshot).ok()?.wanted;
    let strategy = &snapshot.set.spec.update_strategy;
    let (field, remedy) = if wanted.updates
        && wanted.max_unavailable == 0
        && wanted.max_surge == 0
        && status.updated_replicas < status.expected_updated_replicas
    {
        let value = strategy
            .rolling_update
            .as_ref()
            .and_then(|rolling| rolling.max_unavailable.as_ref());
        let value = value.map_or(json!(0), |value| json!(value));
        let field = format!("spec.updateStrategy.rollingUpdate.maxUnavailable: {value}");
        (
            format!("{field} and maxSurge let no pod be updated"),
            "set one of them to at least 1",
        )
    } else if wanted.scale_max_unavailable == 0
        && usize::try_from(status.replicas).is_ok_and(|n| n < wanted.replicas)
    {
        (
            "spec.scaleStrategy.maxUnavailable: 0 lets no pod be created".to_owned(),
            "set it to at least 1, or remove it",
        )
    } else {
        return None;
    };
    Some(format!("{}: {field}; {remedy}", snapshot.view().workload))
}
