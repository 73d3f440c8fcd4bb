//! The status of a SidecarSet.

pub(super) mod blocked;
pub(super) mod condition;
pub(super) mod events;
pub(super) mod reach;

use berth_api::v1beta1::sidecarset::{
    SidecarSetCondition, SidecarSetInjection, SidecarSetRepair, SidecarSetStatus,
};
use berth_workload::budget::surge;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Outcome, Plan, Target};
use berth_workload::update::podset::history::collisions;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::history::revisions::History;
use super::inject::replaced;
use super::names::{BLOCKED, INJECTION_READY, REPAIRING};
use super::repair::audit::{Lack, in_force_since, lacking, selector_hash};
use super::repair::drift;
use super::repair::{self, Scope, Turn};
use super::update::choose::{choose, held};
use super::update::pods::{Member, members};
use super::update::settings::Settings;
use super::update::tried::failure;
use super::{InjectionCalls, Snapshot, Turns, on_pod};

/// The status after a plan was carried out.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> SidecarSetStatus {
    let old = snapshot.set.status.clone().unwrap_or_default();
    let members = members(snapshot);
    let count = |is_so: &dyn Fn(&Member<'_>) -> bool| {
        number(members.iter().filter(|member| is_so(member)).count())
    };
    let history = History::of(snapshot);
    let mut conditions = old.conditions.clone();
    set_injection_ready(snapshot, &mut conditions, now);
    let settings = Settings::new(
        snapshot,
        &members,
        repair::reserved(snapshot, &members, now),
        now,
    );
    let turns = snapshot.turns.after(snapshot, plan, outcome, now);
    set_blocked(
        snapshot,
        (&members, &settings, outcome, &turns),
        &mut conditions,
        now,
    );
    let repair = repair(
        snapshot,
        (&members, &settings, &history.latest),
        (outcome, now),
        &mut conditions,
    );
    SidecarSetStatus {
        observed_generation: snapshot.set.metadata.generation.unwrap_or(0),
        matched_pods: number(members.len()),
        updated_pods: count(&|member| member.is_updated),
        // A pod that may still run its old containers is not ready with the new ones.
        ready_pods: count(&|member| member.is_ready && member.unproven.is_none()),
        updated_ready_pods: count(&|member| {
            member.is_updated && member.is_ready && member.unproven.is_none()
        }),
        latest_revision: history.latest,
        collision_count: Some(collisions(history.collisions, outcome)),
        conditions,
        injection: Some(injection(snapshot, &members, now)),
        repair,
    }
}

const STOPPED: &str = "Stopped";
/// The message between two turns.
const NEXT: &str = "another pod is next";

/// Whether the status says already that repair has stopped.
pub(super) fn has_stopped(snapshot: &Snapshot) -> bool {
    let conditions = snapshot
        .set
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|known| known.type_ == REPAIRING && known.reason == STOPPED)
}

/// Whether the status says already that `reason` blocks the updates.
pub(super) fn is_blocked_by(snapshot: &Snapshot, reason: &str) -> bool {
    let conditions = snapshot
        .set
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|known| known.type_ == BLOCKED && known.reason == reason)
}

/// The record of the pod whose turn it is, and the condition that reports it.
fn repair(
    snapshot: &Snapshot,
    (members, settings, latest): (&[Member<'_>], &Result<Settings, String>, &str),
    (outcome, now): (&Outcome, Timestamp),
    conditions: &mut Vec<SidecarSetCondition>,
) -> Option<SidecarSetRepair> {
    let old = snapshot
        .set
        .status
        .as_ref()
        .and_then(|status| status.repair.clone());
    let turn = if Scope::of(snapshot) == Scope::None {
        Turn::Off
    } else {
        // The refusal of the spec names its problem.
        let Ok(settings) = settings else { return old };
        let held = |member: &Member<'_>| held(snapshot, latest, member, now).map(|(why, _)| why);
        let unavailable = choose(settings, members, held).unavailable;
        repair::turn(snapshot, members, (settings, unavailable), now)
    };
    // Only a turn that waits for its workload has a time in `missing`.
    let missing = old.as_ref().and_then(|record| record.missing.clone());
    let old = old.map(|record| SidecarSetRepair {
        missing: None,
        ..record
    });
    let of_pod = |pod: &Pod| {
        format!(
            "pod {}/{} is replaced",
            pod.metadata.namespace, pod.metadata.name
        )
    };
    let (says, record) = match turn {
        Turn::Off => {
            conditions.retain(|known| known.type_ != REPAIRING);
            return None;
        }
        Turn::Idle(left, record) => {
            let nothing = "no pod lacks anything that its replacement would bring".to_owned();
            (("False", "Idle", left.unwrap_or(nothing)), record)
        }
        Turn::Waits(why) => (("False", "Waiting", why), old),
        Turn::Soon(_) => (("True", "Replacing", NEXT.to_owned()), old),
        Turn::Begins(pod, record) => (("True", "Replacing", of_pod(pod)), Some(record)),
        Turn::Replaces(pod, _, _) => replaced(pod, (old, missing), outcome, now),
        Turn::UnderWay(what, _) => (("True", "Replacing", what), old),
        Turn::Missing(what, since, _) => {
            let missing = |record: SidecarSetRepair| SidecarSetRepair {
                missing: Some(Time(since)),
                ..record
            };
            (("True", "Replacing", what), old.map(missing))
        }
        Turn::Lost(what) => (("True", "Replacing", what), old.map(repair::given_up)),
        Turn::Fruitless(why) => (("False", "Waiting", why), old.map(not_let_go)),
        Turn::Over => (("True", "Replacing", NEXT.to_owned()), old.map(over)),
        Turn::Stops(why) => (
            ("True", "Replacing", why),
            old.map(|record| repair::stopped(record, now)),
        ),
        Turn::Stopped(why) => (("False", STOPPED, why), old),
    };
    put(conditions, REPAIRING, says, now);
    record
}

fn over(record: SidecarSetRepair) -> SidecarSetRepair {
    SidecarSetRepair {
        over: true,
        ..record
    }
}

fn not_let_go(record: SidecarSetRepair) -> SidecarSetRepair {
    SidecarSetRepair {
        refused: true,
        ..over(record)
    }
}

/// The record and the message after the replacement of a pod, which waits for its workload since
/// `missing`. If a disruption budget refuses the pod, the turn ends, unless the budget lets it go
/// when another pod has come.
fn replaced(
    pod: &Pod,
    (record, missing): (Option<SidecarSetRepair>, Option<Time>),
    outcome: &Outcome,
    now: Timestamp,
) -> (
    (&'static str, &'static str, String),
    Option<SidecarSetRepair>,
) {
    let what = format!(
        "pod {}/{} is replaced",
        pod.metadata.namespace, pod.metadata.name
    );
    let Some(failure) = failure(outcome, &Target::from(&pod.metadata)) else {
        return (("True", "Replacing", what), record);
    };
    let message = format!("{what} later: {}", failure.message);
    if failure.is_of_budget() && (missing.is_some() || surge::is_first(&failure.message)) {
        let missing = missing.or(Some(Time(now)));
        return (
            ("True", "Replacing", message),
            record.map(|record| SidecarSetRepair { missing, ..record }),
        );
    }
    // If the outcome is unknown, the next round finds out.
    let record = if failure.permanent {
        record.map(not_let_go)
    } else {
        record
    };
    (("False", "Waiting", message), record)
}

/// The counts of pods that the selectors match.
fn injection(snapshot: &Snapshot, members: &[Member<'_>], now: Timestamp) -> SidecarSetInjection {
    let name = snapshot.name();
    let active: Vec<_> = snapshot.pods.iter().filter(|pod| pod.is_active()).collect();
    let lacking = lacking(snapshot, members, now);
    let count = |what: Lack| number(lacking.iter().filter(|(_, lack)| *lack == what).count());
    SidecarSetInjection {
        selected: number(active.len()),
        injected: number(
            active
                .iter()
                .filter(|pod| on_pod::is_injected(pod, name))
                .count(),
        ),
        missed: count(Lack::Missed),
        older: count(Lack::Older),
        refused: count(Lack::Refused),
        not_upgradable: count(Lack::NotUpgradable),
        drifted: number(drift::drifted(snapshot).len()),
        replaced: number(replaced::replaced(snapshot).len()),
        selector_hash: selector_hash(snapshot),
        since: in_force_since(snapshot, now).map(Time),
    }
}

fn set_injection_ready(
    snapshot: &Snapshot,
    conditions: &mut Vec<SidecarSetCondition>,
    now: Timestamp,
) {
    let has_condition = conditions
        .iter()
        .any(|condition| condition.type_ == INJECTION_READY);
    let not_ready = |reason, message: &str| ("False", reason, message.to_owned());
    let says = if snapshot.set.spec.injection_strategy.paused {
        not_ready(
            "Paused",
            "spec.injectionStrategy.paused: no pod gets the containers",
        )
    } else if snapshot.injection_calls == InjectionCalls::Never {
        not_ready(
            "NoWebhook",
            "no pod webhook is served: turn on the feature gate PodWebhook",
        )
    } else if let Some((reason, message)) = reach::nowhere(snapshot) {
        not_ready(reason, &message)
    } else {
        match &snapshot.injection_calls {
            InjectionCalls::Unknown if has_condition => return,
            InjectionCalls::Yes => {
                let asks = "the apiserver asks for the containers of each pod that is created and selected";
                let but = reach::beside(snapshot)
                    .map_or_else(String::new, |left_out| format!("; {left_out}"));
                ("True", "Asked", format!("{asks}{but}"))
            }
            InjectionCalls::Unanswered(why) => not_ready("NotAnswered", why),
            InjectionCalls::NotYet | InjectionCalls::Unknown | InjectionCalls::Never => not_ready(
                "NotAskedYet",
                "the apiserver was not told yet to ask for pods that are created",
            ),
        }
    };
    put(conditions, INJECTION_READY, says, now);
}

fn set_blocked(
    snapshot: &Snapshot,
    (members, settings, outcome, turns): (
        &[Member<'_>],
        &Result<Settings, String>,
        &Outcome,
        &Turns,
    ),
    conditions: &mut Vec<SidecarSetCondition>,
    now: Timestamp,
) {
    match blocked::cause(snapshot, members, settings.as_ref(), (outcome, turns)) {
        Some((reason, message)) => put(conditions, BLOCKED, ("True", reason, message), now),
        None => conditions.retain(|known| known.type_ != BLOCKED),
    }
}

fn put(
    conditions: &mut Vec<SidecarSetCondition>,
    type_: &str,
    (status, reason, message): (&str, &str, String),
    now: Timestamp,
) {
    let old = conditions
        .iter()
        .position(|condition| condition.type_ == type_);
    let since = old
        .map(|at| &conditions[at])
        .filter(|old| old.status == status);
    let new = SidecarSetCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: since
            .and_then(|old| old.last_transition_time.clone())
            .or(Some(Time(now))),
        reason: reason.to_owned(),
        message,
    };
    match old {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
