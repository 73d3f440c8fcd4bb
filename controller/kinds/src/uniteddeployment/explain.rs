//! The division for users: the replicas of each subset, its bounds, the reason, and the cause if it
//! waits.

use berth_workload::plan::{Refusal, Waiting};

use super::Snapshot;
use super::division::{Bounds, Reason, Share};
use super::failure::Failure;
use super::named;
use super::round::Round;

/// A line for each subset; nothing while the spec is refused.
pub fn explain(snapshot: &Snapshot, round: &Result<Round<'_>, Refusal>) -> Vec<Waiting> {
    let Ok(round) = round else { return Vec::new() };
    let lines = round.sized(snapshot).map(|(subset, share, partition)| {
        let mut reason = format!(
            "{} of {} replicas{}, because {}",
            share.replicas,
            round.division.total,
            bounds(share.bounds),
            why(share)
        );
        if partition > 0 {
            reason += &format!("; partition {partition}");
        }
        match subset.workload {
            Some(workload) => {
                let ready = workload.object.status.ready_replicas;
                reason += &format!("; {} has {ready} ready", named(workload));
                if let Some(Failure { cause, .. }) = &subset.failure {
                    reason += &format!(", because {cause}");
                }
            }
            None => reason += "; it has no workload yet",
        }
        let schedulability = &subset.schedulability;
        if schedulability.reserved > 0 {
            reason += &format!("; {} reserved", schedulability.reserved);
        }
        if !schedulability.waiting.is_empty() {
            reason += &format!("; for a node wait {}", schedulability.waiting.join(", "));
        }
        Waiting {
            pod: subset.spec.name.clone(),
            reason,
        }
    });
    lines.collect()
}

fn bounds(bounds: Bounds) -> String {
    match bounds {
        Bounds { min: 0, max: None } => String::new(),
        Bounds { min, max: None } => format!(" (at least {min})"),
        Bounds {
            min,
            max: Some(max),
        } if min == max => format!(" (exactly {max})"),
        Bounds {
            min,
            max: Some(max),
        } => format!(" (at least {min}, at most {max})"),
    }
}

fn why(share: &Share) -> String {
    match share.reason {
        Reason::Specified => "its replicas say so".to_owned(),
        Reason::EvenShare => "subsets without replicas share the rest evenly".to_owned(),
        Reason::Min => "it gets its minReplicas and nothing is left for more".to_owned(),
        Reason::Max => "it has its maxReplicas".to_owned(),
        Reason::Rest => "it gets what the others leave".to_owned(),
        Reason::NothingLeft => "the others get all replicas".to_owned(),
        Reason::TooFewReplicas => "the replicas do not suffice for its share".to_owned(),
        Reason::Ready => "it keeps the pods that are ready".to_owned(),
        Reason::Unschedulable => "its nodes have no room for more".to_owned(),
        Reason::Substitutes(count) => {
            format!("{count} of them stand in for pods of other subsets that do not serve")
        }
    }
}
