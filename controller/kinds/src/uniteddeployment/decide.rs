//! Decides about a UnitedDeployment.

mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_api::kinds::uniteddeployment::names::label::RESERVED_POD;
use berth_api::v1beta1::uniteddeployment::DEFAULT_REVISION_HISTORY_LIMIT;
use berth_workload::objects::owner::{self, controller_reference};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Body, Event, Plan, PodPatch, Refusal, Step, Target};
use berth_workload::update::revision::{Recognised, Revision, form};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::division::Share;
use super::render::{self, Size, Template};
use super::round::{Round, SubsetView, with_history};
use super::{Snapshot, SubsetWorkload, named, stuck_pods};

use write::{confirmed, create, update, with_events};

/// The plan for now. An empty plan means that the controller has nothing to do until something
/// changes.
pub fn decide(snapshot: &Snapshot, round: &Result<Round<'_>, Refusal>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if snapshot.united.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let round = match round {
        Ok(round) => round,
        Err(refusal) => {
            refuse(snapshot, refusal.clone(), &mut plan);
            return plan;
        }
    };
    if let Some(predecessor) = predecessor(snapshot) {
        plan.wait(format!(
            "{predecessor} still belongs to an earlier UnitedDeployment of this name, until garbage collection has ended"
        ));
        return plan;
    }
    if let Recognised::New(number) = round.recognised {
        plan.add_required_stage("revision", vec![new_revision(snapshot, number)]);
        return plan;
    }
    if let Recognised::Older(revision, number) = &round.recognised {
        plan.add_stage("revision", vec![renumbered(revision, *number)]);
    }
    plan.add_stage(
        "label pods",
        round.subsets.iter().flat_map(label_pods).collect(),
    );
    plan.add_stage(
        "adopt",
        round
            .subsets
            .iter()
            .filter_map(|subset| adopt(snapshot, subset))
            .collect(),
    );
    if !round.is_recorded(snapshot) {
        return plan;
    }
    bring_all(snapshot, round, &mut plan, now);
    plan.add_stage("delete subsets", delete(round));
    let stuck = stuck_pods::delete(snapshot, round, &mut plan, now);
    plan.add_stage("delete stuck pods", stuck);
    drop_history(snapshot, round, &mut plan);
    for wait in round
        .subsets
        .iter()
        .filter_map(|subset| subset.schedulability.look_again)
    {
        plan.look_again_after(wait);
    }
    plan
}

/// Creates and updates the workloads of the subsets, and says in the plan why they wait.
fn bring_all(snapshot: &Snapshot, round: &Round<'_>, plan: &mut Plan, now: Timestamp) {
    let (mut creates, mut updates) = (Vec::new(), Vec::new());
    for (subset, share, partition) in round.sized(snapshot) {
        let size = Size {
            replicas: share.replicas,
            partition,
            reserved: subset.schedulability.reserved,
        };
        match bring(snapshot, round, subset, size, plan) {
            Some(step) if subset.workload.is_none() => creates.push(step),
            step => updates.extend(step),
        }
        tell(subset, share, plan, now);
    }
    plan.add_stage("create subsets", creates);
    plan.add_stage("update subsets", updates);
}

/// Gives the revision with the template the highest number.
fn renumbered(revision: &Revision, number: i64) -> Step {
    let action = Action::RenumberRevision {
        target: revision.target(),
        revision: number,
        annotations: BTreeMap::new(),
    };
    let reason = format!(
        "the template is that of revision {}, which becomes the newest",
        revision.metadata.name
    );
    Step::new(action, reason)
}

/// An object that an earlier UnitedDeployment of this name still controls. A workload that is
/// created before its release would be the second one of its subset.
fn predecessor(snapshot: &Snapshot) -> Option<String> {
    let workloads = snapshot
        .workloads
        .iter()
        .filter(|workload| !workload.is_going());
    let mut workloads = workloads.filter(|workload| {
        owner::controller(&workload.object.metadata)
            .is_some_and(|owner| snapshot.is_of_predecessor(&owner))
    });
    let is_left = |revision: &&Arc<Revision>| {
        revision
            .metadata
            .controller()
            .is_some_and(|owner| snapshot.is_of_predecessor(&owner.into()))
    };
    let revision = || snapshot.orphans.iter().find(is_left);
    let revision =
        || revision().map(|revision| format!("ControllerRevision {}", revision.metadata.name));
    workloads.next().map(named).or_else(revision)
}

/// Creates the revision of a new template, or adopts the one that an earlier UnitedDeployment of
/// this name has left. The pods have its name in their labels, so another revision would restart
/// them.
fn new_revision(snapshot: &Snapshot, number: i64) -> Step {
    let owner = controller_reference(&UNITED_DEPLOYMENTS, &snapshot.united.metadata);
    let template = serde_json::to_value(&snapshot.united.spec.template).unwrap_or_default();
    let body = with_history(snapshot, &template, |history| {
        history.new_revision(owner.clone(), number)
    });
    let data = form::text(&body["data"]);
    let is_left = |orphan: &&Arc<Revision>| {
        body["metadata"]["name"] == *orphan.metadata.name
            && form::text(&orphan.data.value()) == data
    };
    if let Some(orphan) = snapshot.orphans.iter().find(is_left) {
        let target = Target::as_seen(&orphan.metadata);
        let reason = format!(
            "revision {} is adopted: an earlier UnitedDeployment of this name left it",
            target.name
        );
        return confirmed(snapshot, Action::AdoptRevision { target, owner }, reason);
    }
    let reason = format!("the template is new, and becomes revision {number}");
    let mut step = Step::new(
        Action::CreateRevision {
            body: Body::from(&body),
        },
        reason,
    );
    let message = "failed to take over spec.template".to_owned();
    step.failed = Some(Event::warning("FailedRevisionProvision", message));
    step
}

/// Writes into the labels of pods whether they are reserved.
fn label_pods(subset: &SubsetView<'_>) -> Vec<Step> {
    let label = |(pod, reserved): &(Arc<Pod>, bool)| {
        let labels = [(RESERVED_POD.to_owned(), Some(reserved.to_string()))];
        let patch = PodPatch {
            labels: labels.into(),
            ..PodPatch::default()
        };
        let (name, subset) = (&pod.metadata.name, &subset.spec.name);
        let why = if *reserved { "is reserved" } else { "serves" };
        Step::new(
            Action::PatchPod {
                target: Target::from(&pod.metadata),
                patch,
            },
            format!("pod {name} of subset {subset} {why}"),
        )
    };
    subset.schedulability.labels.iter().map(label).collect()
}

/// Gives an orphan an owner. Other owners stay.
fn adopt(snapshot: &Snapshot, subset: &SubsetView<'_>) -> Option<Step> {
    let orphan = subset.orphan?;
    let metadata = &orphan.object.metadata;
    let mut owners = serde_json::to_value(&metadata.owner_references)
        .ok()
        .filter(Value::is_array)
        .unwrap_or(json!([]));
    owners.as_array_mut()?.push(controller_reference(
        &UNITED_DEPLOYMENTS,
        &snapshot.united.metadata,
    ));
    let target = Target {
        resource_version: metadata.resource_version.clone(),
        ..Target::from(metadata)
    };
    let patch = json!({"metadata": {"ownerReferences": owners}});
    let action = Action::Patch {
        resource: orphan.kind.resource(),
        target,
        patch,
    };
    let reason = format!(
        "{} has no owner, and the labels of subset {}",
        named(orphan),
        subset.spec.name
    );
    Some(confirmed(snapshot, action, reason))
}

/// Creates the workload of a subset, or changes its fields that differ from the wanted ones.
fn bring(
    snapshot: &Snapshot,
    round: &Round<'_>,
    subset: &SubsetView<'_>,
    size: Size,
    plan: &mut Plan,
) -> Option<Step> {
    let wanted = match wanted(snapshot, round, subset, size) {
        Ok(wanted) => wanted,
        Err(refusal) => {
            refuse(snapshot, refusal, plan);
            return None;
        }
    };
    match subset.workload {
        Some(workload) => update(snapshot, round, (subset, workload), size, &wanted),
        None => create(snapshot, round, subset, size, &wanted, plan),
    }
}

/// The wanted workload of a subset.
fn wanted(
    snapshot: &Snapshot,
    round: &Round<'_>,
    subset: &SubsetView<'_>,
    size: Size,
) -> Result<render::Workload, Refusal> {
    let spec = subset.spec;
    let template = Template {
        kind: round.kind,
        selector: &snapshot.united.spec.selector,
        metadata: round.template.metadata.as_ref(),
        spec: &round.template.spec,
        revision: &round.revision,
    };
    let of_spec = render::Subset {
        name: &spec.name,
        node_selector_term: &spec.node_selector_term,
        tolerations: &spec.tolerations,
        patch: spec.patch.as_ref(),
    };
    render::render(&template, &of_spec, size).map_err(|invalid| {
        let field = if invalid.of_subset {
            format!("spec.topology.subsets[{}].{invalid}", spec.name)
        } else {
            format!("spec.template.{}.{invalid}", round.kind.template_field())
        };
        snapshot.refusal(&field)
    })
}

/// The spec is refused until its author changes it.
fn refuse(snapshot: &Snapshot, refusal: Refusal, plan: &mut Plan) {
    let is_known = super::status::says(snapshot, &refusal);
    plan.refuse(refusal, is_known);
}

/// Says in the plan why a subset waits.
fn tell(subset: &SubsetView<'_>, share: &Share, plan: &mut Plan, now: Timestamp) {
    let name = &subset.spec.name;
    for pod in &subset.schedulability.waiting {
        plan.wait(format!(
            "subset {name}: pod {pod} waits for a node that has room"
        ));
    }
    let Some(workload) = subset.workload else {
        return;
    };
    // No event announces that a failure has lasted long enough.
    if let Some(failure) = subset.failure.as_ref().filter(|failure| failure.from > now) {
        plan.look_again_after(failure.from.duration_since(now));
    }
    if let Some(failure) = subset.failure(now) {
        plan.wait(failure);
    } else if workload.object.status.ready_replicas < share.replicas {
        let ready = workload.object.status.ready_replicas;
        plan.wait(format!(
            "subset {name}: {} has {ready} of {} pods ready",
            named(workload),
            share.replicas
        ));
    }
}

/// Deletes workloads that no subset needs. The workload of another kind is deleted when the new one
/// is ready, or before the new one starts if pods with the same identity must not run twice.
fn delete(round: &Round<'_>) -> Vec<Step> {
    let former = round.subsets.iter().flat_map(|subset| {
        let goes = subset.waits_for_former(round.kind)
            || subset
                .workload
                .is_some_and(|workload| workload.object.is_ready());
        let why = format!(
            "the template of subset {} is that of a {} now",
            subset.spec.name,
            round.kind.title()
        );
        subset
            .former
            .iter()
            .filter(move |former| goes && !former.is_going())
            .map(move |workload| (*workload, why.clone()))
    });
    let all = round.surplus.iter().cloned().chain(former);
    let step = |(workload, why): (&SubsetWorkload, String)| {
        let target = Target::from(&workload.object.metadata);
        let name = named(workload);
        let action = Action::Delete {
            resource: workload.kind.resource(),
            target,
        };
        let step = Step::new(action, format!("{name} goes: {why}"));
        with_events(
            step,
            format!("deleted {name}: {why}"),
            format!("failed to delete {name}"),
        )
    };
    all.map(step).collect()
}

/// Deletes revisions beyond the limit, but only if the plan does nothing else.
fn drop_history(snapshot: &Snapshot, round: &Round<'_>, plan: &mut Plan) {
    if !plan.is_idle() {
        return;
    }
    let limit = snapshot
        .united
        .spec
        .revision_history_limit
        .unwrap_or(DEFAULT_REVISION_HISTORY_LIMIT)
        .max(0);
    let current = snapshot
        .united
        .status
        .as_ref()
        .map(|status| &*status.current_revision)
        .unwrap_or_default();
    let dropped = with_history(snapshot, &Value::Null, |history| {
        history.beyond_limit(limit, &[&round.revision, current])
    });
    let steps = dropped.iter().map(|revision| {
        let reason = format!(
            "revision {} is beyond revisionHistoryLimit {limit}",
            revision.metadata.name
        );
        Step::new(
            Action::DeleteRevision {
                target: revision.target(),
            },
            reason,
        )
    });
    plan.add_stage("drop history", steps.collect());
}
