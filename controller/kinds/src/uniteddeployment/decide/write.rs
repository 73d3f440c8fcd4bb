//! The writes that create a subset's workload, or change it to the wanted one.

use crate::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_api::names::label::KRUISE_CONTROLLER_REVISION_HASH;
use berth_workload::objects::owner::controller_reference;
use berth_workload::plan::{Action, Event, IfExists, Plan, Step, Target};
use jiff::SignedDuration;
use serde_json::json;

use crate::uniteddeployment::render::{self, Size};
use crate::uniteddeployment::round::{Round, SubsetView};
use crate::uniteddeployment::{Snapshot, SubsetWorkload, change, named};

/// How often the controller checks for a pod that must end first.
const LEFTOVER: SignedDuration = SignedDuration::from_secs(2);

pub(super) fn create(
    snapshot: &Snapshot,
    round: &Round<'_>,
    subset: &SubsetView<'_>,
    size: Size,
    wanted: &render::Workload,
    plan: &mut Plan,
) -> Option<Step> {
    let spec = subset.spec;
    if let Some(pod) = subset.leftover {
        // Its workload is gone, so that its end triggers no UnitedDeployment.
        plan.look_again_after(LEFTOVER);
        plan.wait(format!(
            "subset {}: pod {} of its last workload has to end first",
            spec.name, pod.metadata.name
        ));
    }
    if subset.orphan.is_some() || subset.leftover.is_some() || subset.waits_for_former(round.kind) {
        return None;
    }
    let metadata = &snapshot.united.metadata;
    let [namespace, name, uid] = [&metadata.namespace, &metadata.name, &metadata.uid]
        .map(|part| part.as_deref().unwrap_or_default());
    let name = render::name(name, uid, &spec.name, round.kind, 0);
    let is_there = |other: &&SubsetWorkload| other.kind == round.kind && other.name() == name;
    if let Some(other) = snapshot.workloads.iter().find(is_there) {
        plan.wait(format!(
            "subset {}: {} has to end before it is created anew",
            spec.name,
            named(other)
        ));
        return None;
    }
    let body = wanted.object(
        namespace,
        &name,
        &controller_reference(&UNITED_DEPLOYMENTS, metadata),
    );
    let action = Action::Create {
        resource: round.kind.resource(),
        body,
        if_exists: IfExists::IsOfSameOwner,
    };
    let what = format!(
        "{} {name} for subset {} with {} replicas",
        round.kind.title(),
        spec.name,
        size.replicas
    );
    let step = confirmed(
        snapshot,
        action,
        format!("subset {} has no workload", spec.name),
    );
    Some(with_events(
        step,
        format!("created {what}"),
        format!("failed to create {what}"),
    ))
}

pub(super) fn update(
    snapshot: &Snapshot,
    round: &Round<'_>,
    (subset, workload): (&SubsetView<'_>, &SubsetWorkload),
    size: Size,
    wanted: &render::Workload,
) -> Option<Step> {
    let (object, subset, name) = (&workload.object, &subset.spec.name, named(workload));
    let existing = json!({
        "metadata": {"labels": object.metadata.labels, "annotations": object.metadata.annotations},
        "spec": object.spec.value(),
    });
    let older = object
        .label(KRUISE_CONTROLLER_REVISION_HASH)
        .and_then(|label| {
            let revision = snapshot
                .revisions
                .iter()
                .find(|revision| *revision.metadata.name == *label)?;
            revision
                .template()
                .pointer(&format!("/{}/metadata", round.kind.template_field()))
                .cloned()
        });
    let patch = change::change(&existing, wanted, older.as_ref())?;
    let target = Target {
        resource_version: object.metadata.resource_version.clone(),
        ..Target::from(&object.metadata)
    };
    let what = if patch.get("metadata").is_none() {
        format!(
            "{name} of subset {subset} to {} replicas, partition {}",
            size.replicas, size.partition
        )
    } else {
        format!("{name} of subset {subset} to revision {}", round.revision)
    };
    let action = Action::Patch {
        resource: workload.kind.resource(),
        target,
        patch,
    };
    let step = Step::new(action, format!("{name} differs from subset {subset}"));
    Some(with_events(
        step,
        format!("changed {what}"),
        format!("failed to change {what}"),
    ))
}

/// A step that is carried out only if the UnitedDeployment still exists. The cache can show that an
/// object is gone or has no owner before it shows the deletion of the UnitedDeployment.
pub(super) fn confirmed(snapshot: &Snapshot, action: Action, reason: String) -> Step {
    let target = Target::from(&snapshot.united.metadata);
    let mut step = Step::new(
        Action::Confirm {
            resource: UNITED_DEPLOYMENTS,
            target,
        },
        reason,
    );
    step.actions.push(action);
    step
}

/// The step with the events of a write to a subset.
pub(super) fn with_events(step: Step, done: String, failed: String) -> Step {
    let event = |warning, reason, message| {
        Some(Event {
            warning,
            reason,
            message,
        })
    };
    Step {
        done: event(false, "SuccessfulUpdateSubset", done),
        failed: event(true, "FailedUpdateSubset", failed),
        ..step
    }
}
