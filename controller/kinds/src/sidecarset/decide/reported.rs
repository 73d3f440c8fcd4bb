//! The plan's messages about pods that wait, and about the parts that they lack.

use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Event, Plan, Waiting};
use jiff::Timestamp;

use super::patch::key;
use crate::sidecarset::inject::replaced;
use crate::sidecarset::repair::audit::lacking;
use crate::sidecarset::repair::{self, drift};
use crate::sidecarset::status::{blocked, reach};
use crate::sidecarset::update::choose::Chosen;
use crate::sidecarset::update::pods::Member;
use crate::sidecarset::update::settings::Settings;
use crate::sidecarset::{Snapshot, status};

/// Says in the plan why pods wait, and which parts they lack.
pub(super) fn tell(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    (settings, chosen): (&Settings, &Chosen<'_>),
    (plan, now): (&mut Plan, Timestamp),
) {
    let left_out = reach::nowhere(snapshot)
        .map(|(_, message)| message)
        .or_else(|| reach::beside(snapshot));
    left_out
        .into_iter()
        .for_each(|left_out| plan.wait(left_out));
    for (member, why) in &chosen.later {
        plan.waiting.push(waiting(member.pod, why));
    }
    for member in members.iter().filter(|member| member.is_updated) {
        if let Some(why) = &member.unproven {
            plan.waiting.push(waiting(
                member.pod,
                &format!("its update is not proven yet: {why}"),
            ));
        }
    }
    for member in members {
        if let Some(failure) = &member.failing {
            plan.waiting.push(waiting(
                member.pod,
                &blocked::of_container(snapshot, failure),
            ));
        }
    }
    for (pod, lack) in lacking(snapshot, members, now) {
        repair::set_aside(snapshot, pod, now)
            .iter()
            .for_each(|(_, left)| plan.look_again_after(*left));
        plan.waiting.push(waiting(
            pod,
            &repair::prospect(snapshot, settings, pod, lack),
        ));
    }
    for (pod, why) in drift::drifted(snapshot) {
        plan.waiting.push(waiting(pod, &why));
    }
    for (pod, names) in replaced::replaced(snapshot) {
        plan.waiting.push(waiting(pod, &replaced::words(&names)));
    }
    plan.events.extend(replaced::event(snapshot));
    // Another event reports pods that cannot be updated.
    if let Some((reason, message)) = blocked::of_spec_and_pods(snapshot, members, Ok(settings))
        && reason != blocked::NOT_UPGRADABLE
        && !status::is_blocked_by(snapshot, reason)
    {
        plan.events.push(Event::warning(reason, message));
    }
}

pub(super) fn waiting(pod: &Pod, reason: &str) -> Waiting {
    Waiting {
        pod: key(pod),
        reason: reason.to_owned(),
    }
}
