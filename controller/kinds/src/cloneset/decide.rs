//! The parts of a CloneSet that differ from those of other owners of pods, and its rollout.

mod create;

use std::sync::Arc;

use berth_api::v1beta1::cloneset::{CloneSet, CloneSetStatus};
use berth_workload::blocked::{Cause, tell_of_unavailable};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::images::predownload;
use berth_workload::objects::pod::gates::OF_NEW_PODS;
use berth_workload::objects::pod::lifecycle;
use berth_workload::objects::pod::{Metadata, Pod, availability};
use berth_workload::objects::resource::CLONE_SETS;
use berth_workload::plan::{Outcome, Plan, Refusal, Stage, Step};
use berth_workload::pod_owner::PodOwner;
use berth_workload::pod_owner::decide::proceed;
use berth_workload::update::pod_order::spread;
use berth_workload::update::podset::history::{self, Revisions};
use berth_workload::update::podset::{
    Blocked, Hooks, Uids, Workload, WorkloadView, hooks, release, update,
};
use berth_workload::update::revision::PodLabels;
use berth_workload::update::rollout::{self, Held, Numbers, repair};
use jiff::Timestamp;
use serde_json::Value;

use super::ended::Ended;
use super::ids::instance;
use super::settings::{Settings, settings};
use super::{CloneSetOwner, Snapshot};
use super::{adopt, blocked, choose, claim_hash, claims, ended, pods_to_delete, progress, status};

use create::scale_up;

impl PodOwner for CloneSetOwner {
    type Object = CloneSet;
    type Status = CloneSetStatus;
    type Places<'a> = ();
    type Settings = Settings;
    type Ended = Option<Ended>;

    fn workload(set: &CloneSet, gates: Gates) -> Workload<'_> {
        let (spec, status) = (&set.spec, set.status.as_ref());
        Workload {
            selector: &spec.selector,
            claim_templates: &spec.volume_claim_templates,
            hooks: Hooks::from(&spec.lifecycle),
            min_ready_seconds: spec.min_ready_seconds,
            pods_to_delete: &spec.scale_strategy.pods_to_delete,
            labels: PodLabels {
                short: gates.has(Gate::CloneSetShortHash),
                template_hash: true,
                on_revisions: false,
            },
            gates: &OF_NEW_PODS,
            // OpenKruise compares bytes, and must find the revision of the stored template.
            meets_by_meaning: false,
            history_limit: spec.revision_history_limit,
            tells_replacements: true,
            current_revision: status.map_or("", |status| &status.current_revision),
            collisions: status.and_then(|s| s.collision_count).unwrap_or(0),
            blocked: status.and_then(|status| Blocked::of(&status.conditions)),
            ..Workload::plain(CLONE_SETS, &set.metadata, &spec.template)
        }
    }

    fn status(set: &CloneSet) -> &Option<CloneSetStatus> {
        &set.status
    }

    /// An orphan that is younger than the CloneSet cannot come from a predecessor.
    fn is_left(set: &CloneSet, orphan: &Metadata) -> bool {
        let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let own = orphan.creation_timestamp;
        own.is_some_and(|own| created.is_some_and(|created| own <= created))
    }

    fn is_orphan(_: &Workload<'_>, pod: &Pod) -> bool {
        pod.is_active() && !instance(&pod.metadata).is_empty()
    }

    fn places(_: &Snapshot, _: &Value) {}

    fn settings(snapshot: &Snapshot, template: &Value, (): &()) -> Result<Settings, Refusal> {
        settings(snapshot, template)
    }

    fn watch(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
        progress::look_again(&snapshot.set, plan, now);
    }

    fn revisions(
        snapshot: &Snapshot,
        template: &Value,
        _: &mut Plan,
        _: Timestamp,
    ) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
        let annotations = claim_hash::annotation(snapshot);
        history::revisions(&snapshot.view(), template, annotations).map_err(|stage| vec![stage])
    }

    /// Plans the steps towards the wanted pods of the wanted revision.
    fn roll_out(
        snapshot: &Snapshot,
        template: &Value,
        (mut settings, ()): (Settings, ()),
        revisions: Revisions,
        plan: &mut Plan,
        now: Timestamp,
    ) {
        let revisions = &revisions;
        let view = snapshot.view();
        release::release(&view, plan);
        settings.wanted.rolls_back =
            snapshot.gates.has(Gate::CloneSetPartitionRollback) && revisions.differ();
        let active = snapshot.pods.iter().filter(|pod| pod.is_active());
        let mut pods: Vec<_> = active.cloned().collect();
        let returning = hooks::returning(&view, settings.wanted.replicas, &pods);
        let count = |pods: &[Arc<Pod>], is_updated: &dyn Fn(&Pod) -> bool| {
            let held = |pod: &Arc<Pod>| Held {
                updated: is_updated(pod),
                ..held(&view, &settings, revisions, &returning, pod, now)
            };
            rollout::numbers(&settings.wanted, pods.iter().map(held))
        };
        let scales_as_updated = |pod: &Pod| scales_as_updated(snapshot, revisions, pod);
        let (mut numbers, active) = (count(&pods, &scales_as_updated), pods.len());
        let leaving = leaving(
            snapshot, &settings, revisions, &pods, &returning, &numbers, plan, now,
        );
        // A pod that is deleted now is no candidate for an update, and the number of pods that may
        // be disrupted does not include it.
        pods.retain(|pod| !leaving.uids.contains(&pod.metadata.uid));
        let config = settings.predownload_config(snapshot);
        let progress = predownload::progress(&view, &config, revisions, &pods, now);
        let hold = predownload::PredownloadHold::new(&view, &config, revisions, &progress, now);
        let chosen = choose::choose(
            snapshot,
            &settings,
            revisions,
            &pods,
            &count(&pods, &|pod| revisions.is_updated(pod)),
            &hold,
            now,
        );
        proceed(&view, Some(&chosen), &returning, &pods, plan, now);
        let ending = ended::ending(snapshot, plan, now);
        ending.keep_places(revisions, &mut numbers);
        adopt::pods(
            snapshot,
            &settings,
            revisions,
            active,
            &mut numbers,
            plan,
            now,
        );
        scale_up(
            snapshot,
            revisions,
            pods.len(),
            (&numbers, &ending.resting()),
            plan,
            now,
        );
        plan.add_stage("ended", ending.steps);
        plan.add_stage("scale down", leaving.steps);
        predownload::plan(&view, &config, template, revisions, progress, plan);
        update::update(&view, &chosen, settings.grace, plan, now);
        clean_up(snapshot, revisions, &pods, plan);
        tell_of_unavailable(&pods, settings.min_ready_seconds, plan, now);
    }

    fn count(
        snapshot: &Snapshot,
        (template, ()): (&Value, &()),
        revisions: Option<&Revisions>,
        outcome: &Outcome,
        status: &mut CloneSetStatus,
        now: Timestamp,
    ) {
        status::set(snapshot, template, revisions, outcome, status, now);
    }

    fn causes(
        snapshot: &Snapshot,
        (): &(),
        (plan, outcome): (&Plan, &Outcome),
        status: &CloneSetStatus,
        now: Timestamp,
    ) -> Vec<Cause> {
        blocked::causes(snapshot, plan, outcome, status, now)
    }

    fn ended(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Option<Option<Ended>> {
        ended::noted(snapshot, plan, now).map(Some)
    }
}

/// Removes objects that no pod needs any more: names of deleted pods in the spec, claims,
/// revisions.
fn clean_up(snapshot: &Snapshot, revisions: &Revisions, pods: &[Arc<Pod>], plan: &mut Plan) {
    let names = pods_to_delete::clean(snapshot);
    plan.add_stage("pods to delete", names.into_iter().collect());
    claims::settle(snapshot, plan);
    history::drop_history(&snapshot.view(), revisions, pods, plan);
}

/// The properties of a pod that decide how the pod counts.
fn held(
    view: &WorkloadView<'_>,
    settings: &Settings,
    revisions: &Revisions,
    returning: &Uids,
    pod: &Pod,
    now: Timestamp,
) -> Held {
    Held {
        updated: revisions.is_updated(pod),
        current: revisions.is_current(pod),
        available: availability(pod, settings.min_ready_seconds, now).is_available(),
        scheduled: !pod.spec.node_name.is_empty(),
        broken: repair::is_broken(pod),
        to_delete: view.is_to_delete(pod),
        preparing_delete: is_leaving(pod, returning),
    }
}

/// Whether the pod counts as updated in the numbers of pods. A pod whose update a hook holds may
/// count as updated, so that it is not scaled down first.
fn scales_as_updated(snapshot: &Snapshot, revisions: &Revisions, pod: &Pod) -> bool {
    let preparing = lifecycle::state(pod) == lifecycle::PREPARING_UPDATE;
    revisions.is_updated(pod) || (preparing && snapshot.gates.has(Gate::PreparingUpdateAsUpdate))
}

/// Whether a hook holds the pod before its deletion.
fn is_leaving(pod: &Pod, returning: &Uids) -> bool {
    lifecycle::state(pod) == lifecycle::PREPARING_DELETE && !returning.contains(&pod.metadata.uid)
}

/// Pods that are deleted now, or as soon as their hooks let them go.
struct Leaving {
    steps: Vec<Step>,
    /// The pods of the steps.
    uids: Uids,
}

/// The pods to delete now: those with a request for deletion or that a hook held before, then those
/// beyond the wanted number.
#[allow(clippy::too_many_arguments, reason = "all that a deletion depends on")]
fn leaving(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &Revisions,
    pods: &[Arc<Pod>],
    returning: &Uids,
    numbers: &Numbers,
    plan: &mut Plan,
    now: Timestamp,
) -> Leaving {
    let view = snapshot.view();
    let is_first = |pod: &Arc<Pod>| view.is_to_delete(pod) || is_leaving(pod, returning);
    let (mut leave, staying): (Vec<_>, Vec<_>) = pods.iter().cloned().partition(is_first);
    let (updated, old): (Vec<_>, Vec<_>) = staying
        .into_iter()
        .partition(|pod| scales_as_updated(snapshot, revisions, pod));
    let is_available =
        |pod: &Pod| availability(pod, settings.min_ready_seconds, now).is_available();
    for (mut pods, surplus) in [(old, numbers.delete_old), (updated, numbers.delete_updated)] {
        // In nearly every round there is no surplus pod.
        if surplus > 0 {
            spread::for_deletion(&mut pods, &view.spread(), is_available);
            leave.extend(pods.into_iter().take(surplus));
        }
    }
    let mut disruptions = numbers.disruptions;
    let mut leaving = Leaving {
        steps: Vec::new(),
        uids: Uids::new(),
    };
    for pod in leave {
        let is_requested = view.is_to_delete(&pod);
        let reason = if is_requested {
            "its deletion was asked for"
        } else {
            "there are more pods than wanted"
        };
        let available = is_available(&pod);
        if available && disruptions == 0 {
            let reason = format!("is to be deleted ({reason}), and waits for maxUnavailable");
            plan.wait_for_pod(&pod, reason);
            continue;
        }
        disruptions -= usize::from(available);
        if let Some(step) = update::leave(&view, &pod, reason, now) {
            leaving.steps.push(step);
            leaving.uids.insert(pod.metadata.uid.clone());
        }
    }
    leaving
}
