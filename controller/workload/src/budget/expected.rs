//! How many pods are expected of budgets that hold pods of the same workloads, each of which wants its pods once.

use std::cmp::{max, min};
use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::names::condition::BLOCKED;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// How long until workloads are asked again how many pods they want, where nothing else tells. Where nobody knew, by what the budget has
/// said: as long as that has been so, from 5 s to a minute. Who makes a budget beside its workload waits for the first look; a count looks at
/// all pods of a namespace, and a thousand budgets that can never be counted are not to take the time of others.
pub fn asked_again(is_known: bool, told: &[Condition], now: Timestamp) -> Duration {
    const KNOWN: Duration = Duration::from_secs(300);
    const SOONEST: Duration = Duration::from_secs(5);
    const LATEST: Duration = Duration::from_secs(60);
    if is_known {
        return KNOWN;
    }
    let blocked = told
        .iter()
        .find(|condition| condition.type_ == BLOCKED && condition.status == "True");
    let lasts = blocked.map(|condition| now.duration_since(condition.last_transition_time.0));
    lasts
        .and_then(|lasts| Duration::try_from(lasts).ok())
        .unwrap_or_default()
        .clamp(SOONEST, LATEST)
}

/// How many pods each of some workloads wants, by its uid.
pub type Wanted = BTreeMap<String, usize>;

/// What budgets expect together.
#[derive(Debug, Default)]
pub struct Together {
    wanted: Wanted,
    /// By how much the numbers of these budgets may be less than what their workloads want: a budget may have counted when they wanted
    /// fewer, or in another way.
    lacks: usize,
}

impl Together {
    /// Adds a budget that expects so many pods, of these workloads. Gives how many of those were expected before: never so many that with
    /// the others fewer are expected than all the workloads want, unless the budgets themselves expect fewer.
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
