//! Decisions about a PersistentPodState beside its records: its creation and deletion, and events.

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_workload::plan::{Event, Plan};
use jiff::Timestamp;

use super::{Pinning, Snapshot, Target, generate, moved};

/// The reason why pods of a workload are not pinned if the webhook's configuration has no space for
/// it, and the remedy.
pub(super) const NO_PLACE: &str = "the names of all such workloads are more than the webhook's configuration holds: delete PersistentPodStates \
    that are not needed, or set the chart's value podPinning.by to policy";

/// The reason why pods of a protected namespace are not pinned, and the remedy.
pub(super) const PROTECTED: &str = "its namespace is one of the chart's value controller.protectedNamespaces, or the controller's own, and pods \
    there stay as their authors write them: take the namespace off that value, or use another namespace";

/// Decides about all but the records: a workload's annotations create and delete the object.
pub fn decide(snapshot: &Snapshot, _: Timestamp) -> Plan {
    let mut plan = Plan::default();
    generate::plan(snapshot, &mut plan);
    let Some(state) = &snapshot.state else {
        return plan;
    };
    if state
        .status
        .as_ref()
        .map(|status| status.observed_generation)
        != state.metadata.generation
    {
        let warnings = news(snapshot, state);
        plan.events
            .extend(warnings.map(|(reason, message)| Event::warning(reason, message)));
    }
    plan.events.extend(moved::events(snapshot, state));
    plan
}

/// Messages of events that appear once for each generation.
fn news(
    snapshot: &Snapshot,
    state: &PersistentPodState,
) -> impl Iterator<Item = (&'static str, String)> {
    let target = &state.spec.target_ref;
    let target = format!("{} {} ({})", target.kind, target.name, target.api_version);
    let unsupported = (snapshot.target == Target::Unsupported).then(|| {
        let message = format!(
            "spec.targetRef: no records are kept of {target}; name a StatefulSet of apps or apps.kruise.io, or a kind of the list \
             PPS_Watch_Custom_Workload_WhiteList in the ConfigMap kruise-configuration"
        );
        ("TargetUnsupported", message)
    });
    let taken = snapshot.rival.as_ref().map(|rival| {
        let message = format!(
            "spec.targetRef: PersistentPodState {rival} is older and keeps the records of {target}: delete one of the two"
        );
        ("TargetTaken", message)
    });
    let beyond = snapshot.beyond.clone().map(|why| ("TooManyRecords", why));
    let unpinned = match snapshot.pinning {
        Pinning::Off => Some("the chart's value podPinning.by is none: set it to auto"),
        Pinning::TooMany => Some(NO_PLACE),
        Pinning::Protected => Some(PROTECTED),
        _ => None,
    };
    let unpinned = unpinned.map(|why| {
        (
            "PodsNotPinned",
            format!("no pod of {target} is pinned by its record: {why}"),
        )
    });
    [unsupported, taken, beyond, unpinned].into_iter().flatten()
}
