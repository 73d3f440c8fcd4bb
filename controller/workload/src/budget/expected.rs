//! How many pods are expected of budgets that hold pods of the same workloads. Each workload's pods
//! count once.

use std::cmp::{max, min};
use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::names::condition::BLOCKED;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// How long until the leader reads again how many pods workloads want, if no watch event does it
/// earlier. If the number is unknown, the delay is as long as the budget has been blocked, between
/// 5 s and a minute. A user who creates a budget next to its workload waits for the first of these
/// reads. A count reads all pods of a namespace, so that a thousand budgets that cannot be counted
/// must not delay the others.
pub fn recheck_delay(is_known: bool, conditions: &[Condition], now: Timestamp) -> Duration {
    const KNOWN: Duration = Duration::from_secs(300);
    const SOONEST: Duration = Duration::from_secs(5);
    const LATEST: Duration = Duration::from_secs(60);
    if is_known {
        return KNOWN;
    }
    let blocked = conditions
        .iter()
        .find(|condition| condition.type_ == BLOCKED && condition.status == "True");
    let lasts = blocked.map(|condition| now.duration_since(condition.last_transition_time.0));
    lasts
        .and_then(|lasts| Duration::try_from(lasts).ok())
        .unwrap_or_default()
        .clamp(SOONEST, LATEST)
}

/// How many pods each workload wants, by the workload's uid.
pub type Wanted = BTreeMap<String, usize>;

/// The expected pods of several budgets.
#[derive(Debug, Default)]
pub struct Together {
    wanted: Wanted,
    /// How much smaller these budgets' numbers may be than the wanted pods, because a budget may
    /// have counted earlier or differently.
    lacks: usize,
}

impl Together {
    /// Adds a budget that expects this many pods of these workloads. Returns how many of them other
    /// budgets already expect. The sum is never less than the workloads want, unless the budgets
    /// themselves expect fewer.
    pub fn add(&mut self, expected: usize, wanted: Wanted) -> usize {
        let sum = |all: usize, more: usize| all.saturating_add(more);
        let of_its_own = wanted.values().copied().fold(0, sum);
        let common = wanted
            .iter()
            .filter_map(|(uid, wanted)| Some(min(*self.wanted.get(uid)?, *wanted)));
        let common = common.fold(0, sum);
        let lacks = self
            .lacks
            .saturating_add(of_its_own.saturating_sub(expected));
        self.lacks = lacks.saturating_sub(common);
        for (uid, wanted) in wanted {
            let known = self.wanted.entry(uid).or_default();
            *known = max(*known, wanted);
        }
        common.saturating_sub(lacks)
    }
}

#[cfg(test)]
mod tests;
