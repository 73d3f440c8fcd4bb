//! The parts of a DaemonSet that differ from those of other owners of pods, and its rollout.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::daemonset::{DaemonSet, DaemonSetStatus};
use berth_workload::blocked::{Cause, tell_of_unavailable};
use berth_workload::feature_gates::Gates;
use berth_workload::images::predownload::{self, Annotated};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::gates::{KRUISE_POD_READY, OF_NEW_PODS};
use berth_workload::objects::resource::DAEMON_SETS;
use berth_workload::plan::{Outcome, Plan, Refusal, Stage, Step};
use berth_workload::pod_owner::PodOwner;
use berth_workload::pod_owner::decide::proceed;
use berth_workload::update::podset::ended::Ended;
use berth_workload::update::podset::history::{self, Revisions};
use berth_workload::update::podset::{
    Blocked, Hooks, Uids, Workload, adopt as podset_adopt, release, update,
};
use berth_workload::update::revision::PodLabels;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::choose::Turns;
use super::places::{Places, without_nodes};
use super::settings::{Settings, settings};
use super::{DaemonSetOwner, Snapshot, is_in_place};
use super::{adopt, blocked, choose, create, ended, held, leaving, merge, status};

impl PodOwner for DaemonSetOwner {
    type Object = DaemonSet;
    type Status = DaemonSetStatus;
    type Places<'a> = Places<'a>;
    type Settings = Settings;
    /// By node.
    type Ended = BTreeMap<Box<str>, Ended>;

    fn workload(set: &DaemonSet, _: Gates) -> Workload<'_> {
        let (spec, status) = (&set.spec, set.status.as_ref());
        let pre_delete = spec
            .lifecycle
            .as_ref()
            .and_then(|all| all.pre_delete.as_ref());
        Workload {
            selector: &spec.selector,
            // OpenKruise does not have the other hooks.
            hooks: Hooks {
                pre_delete,
                ..Hooks::default()
            },
            min_ready_seconds: spec.min_ready_seconds,
            labels: PodLabels {
                short: true,
                template_hash: false,
                on_revisions: true,
            },
            gates: if is_in_place(set) {
                &OF_NEW_PODS
            } else {
                &[KRUISE_POD_READY]
            },
            // Kubernetes stores a template with its defaults. So revisions must match by their
            // meaning: otherwise Kubernetes' revisions are not found, and its pods change.
            meets_by_meaning: true,
            history_limit: spec.revision_history_limit,
            collisions: status.and_then(|s| s.collision_count).unwrap_or(0),
            blocked: status.and_then(|status| Blocked::of(&status.conditions)),
            ..Workload::plain(DAEMON_SETS, &set.metadata, &spec.template)
        }
    }

    fn status(set: &DaemonSet) -> &Option<DaemonSetStatus> {
        &set.status
    }

    fn is_orphan(_: &Workload<'_>, pod: &Pod) -> bool {
        pod.is_active()
    }

    fn places<'a>(snapshot: &'a Snapshot, template: &Value) -> Places<'a> {
        Places::new(snapshot, template)
    }

    fn settings(
        snapshot: &Snapshot,
        template: &Value,
        places: &Places<'_>,
    ) -> Result<Settings, Refusal> {
        settings(snapshot, template, places.wanted().count())
    }

    /// Merges revisions of the same content, and waits for a revision that the DaemonSet is about
    /// to adopt.
    fn revisions(
        snapshot: &Snapshot,
        template: &Value,
        plan: &mut Plan,
        now: Timestamp,
    ) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
        let merged = merge::duplicates(snapshot);
        if !merged.is_empty() {
            return Err(merged);
        }
        let found = history::revisions(&snapshot.view(), template, BTreeMap::new());
        match (found, adopt::awaited(snapshot, now)) {
            (Ok(found), _) => Ok(found),
            (Err(_), Some((pod, rest))) => {
                let name = &pod.metadata.name;
                plan.wait(format!(
                    "waits for the revision of pod {name}, which an earlier DaemonSet of this name left or leaves"
                ));
                plan.look_again_after(rest.min(SignedDuration::from_secs(1)));
                Err(Vec::new())
            }
            (Err(stage), None) => Err(vec![stage]),
        }
    }

    /// Plans the steps towards one pod on each node that fits, of the wanted revision.
    fn roll_out(
        snapshot: &Snapshot,
        template: &Value,
        (settings, places): (Settings, Places<'_>),
        mut revisions: Revisions,
        plan: &mut Plan,
        now: Timestamp,
    ) {
        let (settings, places) = (&settings, &places);
        let view = snapshot.view();
        release::release(&view, plan);
        without_nodes(places)
            .into_iter()
            .for_each(|why| plan.wait(why));
        let mut turns = Turns::new(snapshot, settings, places, &revisions, now);
        // The status does not name the previous revision. The history keeps the revision that nodes
        // keep, too.
        let held = turns.held.as_ref().map(|held| held.revision.clone());
        if let Some(former) = held.or_else(|| held::former(snapshot, &revisions)) {
            revisions.current = former;
        }
        let revisions = &revisions;
        let leaving =
            leaving::leaving(snapshot, settings, places, revisions, &mut turns, plan, now);
        let is_staying =
            |pod: &&Arc<Pod>| pod.is_active() && !leaving.uids.contains(&pod.metadata.uid);
        let pods: Vec<Arc<Pod>> = snapshot.pods.iter().filter(is_staying).cloned().collect();
        let annotated = Annotated::of(&snapshot.set.metadata);
        let config = settings.predownload_config(snapshot, places.wanted().count(), &annotated);
        let progress = predownload::progress(&view, &config, revisions, &pods, now);
        let hold = predownload::PredownloadHold::new(&view, &config, revisions, &progress, now);
        let chosen = choose::choose(
            snapshot,
            settings,
            places,
            revisions,
            &leaving.uids,
            &mut turns,
            plan,
        )
        .with_held(|pod| hold.of(pod));
        proceed(&view, Some(&chosen), &Uids::new(), &pods, plan, now);
        podset_adopt::pods(&view.workload, &snapshot.orphans.pods, plan);
        create::create(snapshot, settings, places, revisions, &turns, plan, now);
        plan.add_stage("delete", leaving.steps);
        predownload::plan(&view, &config, template, revisions, progress, plan);
        update::update(&view, &chosen, SignedDuration::ZERO, plan, now);
        history::drop_history(&view, revisions, &pods, plan);
        tell_of_unavailable(&pods, settings.min_ready_seconds, plan, now);
    }

    fn count(
        snapshot: &Snapshot,
        (_, places): (&Value, &Places<'_>),
        revisions: Option<&Revisions>,
        _: &Outcome,
        status: &mut DaemonSetStatus,
        now: Timestamp,
    ) {
        status::count(snapshot, places, revisions, status, now);
    }

    fn causes(
        snapshot: &Snapshot,
        places: &Places<'_>,
        (plan, outcome): (&Plan, &Outcome),
        _: &DaemonSetStatus,
        now: Timestamp,
    ) -> Vec<Cause> {
        blocked::causes(snapshot, places, plan, outcome, now)
    }

    fn ended(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Option<Self::Ended> {
        ended::noted(snapshot, plan, now)
    }
}
