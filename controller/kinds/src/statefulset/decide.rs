//! The parts of a StatefulSet that differ from those of other owners of pods, and its rollout.

use std::sync::Arc;

use berth_api::v1beta1::statefulset::{StatefulSet, StatefulSetStatus};
use berth_workload::blocked::{Cause, tell_of_unavailable};
use berth_workload::feature_gates::Gates;
use berth_workload::images::predownload;
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::gates::OF_NEW_PODS;
use berth_workload::objects::resource::STATEFUL_SETS;
use berth_workload::plan::{Outcome, Plan, Refusal};
use berth_workload::pod_owner::PodOwner;
use berth_workload::pod_owner::decide::proceed;
use berth_workload::update::podset::history::{self, Revisions};
use berth_workload::update::podset::{Blocked, Hooks, Workload, adopt, release, update};
use jiff::Timestamp;
use serde_json::Value;

use super::places::Places;
use super::settings::{Settings, settings};
use super::{Snapshot, StatefulSetOwner, min_ready_seconds};
use super::{blocked, choose, claims, create, leaving, status};

impl PodOwner for StatefulSetOwner {
    type Object = StatefulSet;
    type Status = StatefulSetStatus;
    type Places<'a> = ();
    type Settings = Settings;
    type Ended = ();

    fn workload(set: &StatefulSet, _: Gates) -> Workload<'_> {
        let (spec, status) = (&set.spec, set.status.as_ref());
        Workload {
            selector: &spec.selector,
            claim_templates: &spec.volume_claim_templates,
            hooks: Hooks::from(&spec.lifecycle),
            min_ready_seconds: min_ready_seconds(spec),
            gates: &OF_NEW_PODS,
            // Kubernetes stores a template with its defaults. So revisions must match by their
            // meaning: otherwise Kubernetes' revisions are not found, and its pods change.
            meets_by_meaning: true,
            history_limit: spec.revision_history_limit,
            current_revision: status.map_or("", |status| &status.current_revision),
            collisions: status.and_then(|s| s.collision_count).unwrap_or(0),
            blocked: status.and_then(|status| Blocked::of(&status.conditions)),
            ..Workload::plain(STATEFUL_SETS, &set.metadata, &spec.template)
        }
    }

    fn status(set: &StatefulSet) -> &Option<StatefulSetStatus> {
        &set.status
    }

    fn is_orphan(workload: &Workload<'_>, pod: &Pod) -> bool {
        ordinal_of(workload.name(), &pod.metadata.name).is_some()
    }

    fn places(_: &Snapshot, _: &Value) {}

    fn settings(snapshot: &Snapshot, template: &Value, (): &()) -> Result<Settings, Refusal> {
        settings(snapshot, template)
    }

    fn watch(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
        blocked::watch(snapshot, plan, now);
    }

    /// Settles claims while the revision is missing, because claim templates are no part of a
    /// revision.
    fn await_revision(snapshot: &Snapshot, settings: &Settings, plan: &mut Plan, now: Timestamp) {
        claims::settle(snapshot, &Places::new(snapshot, settings, now), plan);
    }

    /// Plans the steps towards the wanted pods of the wanted revision.
    fn roll_out(
        snapshot: &Snapshot,
        template: &Value,
        (settings, ()): (Settings, ()),
        revisions: Revisions,
        plan: &mut Plan,
        now: Timestamp,
    ) {
        let (settings, revisions) = (&settings, &revisions);
        let view = snapshot.view();
        release::release(&view, plan);
        let places = Places::new(snapshot, settings, now);
        let returning = leaving::returning(snapshot, &places);
        let leaving = leaving::leaving(snapshot, settings, &places, &returning, plan, now);
        let is_staying =
            |pod: &&Arc<Pod>| pod.is_active() && !leaving.uids.contains(&pod.metadata.uid);
        let pods: Vec<Arc<Pod>> = snapshot.pods.iter().filter(is_staying).cloned().collect();
        let ahead = settings.predownload(snapshot);
        let config = settings.predownload_config(&ahead);
        let progress = predownload::progress(&view, &config, revisions, &pods, now);
        let hold = predownload::PredownloadHold::new(&view, &config, revisions, &progress, now);
        let chosen = choose::choose(
            snapshot, settings, &places, revisions, &leaving, &hold, plan,
        );
        proceed(&view, Some(&chosen), &returning, &pods, plan, now);
        adopt::pods(&view.workload, &snapshot.orphans.pods, plan);
        create::create(snapshot, settings, &places, revisions, plan, now);
        plan.add_stage("delete", leaving.steps);
        predownload::plan(&view, &config, template, revisions, progress, plan);
        update::update(&view, &chosen, settings.grace, plan, now);
        claims::settle(snapshot, &places, plan);
        history::drop_history(&view, revisions, &pods, plan);
        tell_of_unavailable(&pods, settings.min_ready_seconds, plan, now);
    }

    fn count(
        snapshot: &Snapshot,
        _: (&Value, &()),
        revisions: Option<&Revisions>,
        outcome: &Outcome,
        status: &mut StatefulSetStatus,
        now: Timestamp,
    ) {
        status::set(snapshot, revisions, outcome, status, now);
    }

    fn causes(
        snapshot: &Snapshot,
        (): &(),
        (plan, outcome): (&Plan, &Outcome),
        status: &StatefulSetStatus,
        now: Timestamp,
    ) -> Vec<Cause> {
        blocked::causes(snapshot, plan, outcome, status, now)
    }
}
