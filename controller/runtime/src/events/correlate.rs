//! Decides which events are sent, counted, or dropped. The rules are the Go client's, so that
//! events do not flood etcd. Equal events are one with a count. More than ten different messages of
//! one reason within ten minutes become one. Each object may cause 25 events at once and then one
//! in five minutes.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use berth_workload::plan::Event;
use tokio::time::Instant;

use crate::events::owner::Owner;

const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
const MESSAGES: usize = 10;
const MEMORY: Duration = Duration::from_secs(600);
/// Series, groups and objects remembered, each.
const REMEMBERED: usize = 1024;

/// The decision on an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    Create(Series),
    Count(Series),
    Drop,
}

/// Equal events.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// Name of the event object.
    pub(super) name: String,
    pub(super) message: String,
    pub(super) count: u32,
}

/// The events that were sent.
#[derive(Default)]
pub(super) struct Correlator {
    series: HashMap<(Group, String), (Series, Instant)>,
    groups: HashMap<Group, (HashSet<String>, Instant)>,
    buckets: HashMap<String, (f64, Instant)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Group {
    uid: String,
    name: String,
    reason: &'static str,
    warning: bool,
}

impl Correlator {
    pub(super) fn correlate(&mut self, regarding: &Owner, event: &Event, now: Instant) -> Decision {
        let object = format!(
            "{}/{}/{}",
            regarding.uid, regarding.namespace, regarding.name
        );
        if !self.spend(object, now) {
            return Decision::Drop;
        }
        let group = Group {
            uid: regarding.uid.clone(),
            name: regarding.name.clone(),
            reason: event.reason,
            warning: event.warning,
        };
        let (key, message) = self.group(group, event, now);
        forget(&mut self.series, now, |(_, last)| *last);
        match self.series.get_mut(&key) {
            Some((series, last)) => {
                series.count += 1;
                series.message = message;
                *last = now;
                Decision::Count(series.clone())
            }
            None => {
                let series = Series {
                    name: name(&regarding.name),
                    message,
                    count: 1,
                };
                self.series.insert(key, (series.clone(), now));
                Decision::Create(series)
            }
        }
    }

    /// Under which key an event is counted, and with which message.
    fn group(&mut self, group: Group, event: &Event, now: Instant) -> ((Group, String), String) {
        forget(&mut self.groups, now, |(_, last)| *last);
        let (messages, last) = self
            .groups
            .entry(group.clone())
            .or_insert_with(|| (HashSet::new(), now));
        *last = now;
        if messages.len() < MESSAGES || messages.contains(&event.message) {
            messages.insert(event.message.clone());
            return ((group, event.message.clone()), event.message.clone());
        }
        (
            (group, String::new()),
            format!("(combined from similar events): {}", event.message),
        )
    }

    fn spend(&mut self, object: String, now: Instant) -> bool {
        forget(&mut self.buckets, now, |(_, last)| *last);
        let (tokens, last) = self.buckets.entry(object).or_insert((BURST, now));
        let refill = now.duration_since(*last).as_secs_f64() / REFILL.as_secs_f64();
        (*tokens, *last) = ((*tokens + refill).min(BURST), now);
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

/// Keeps a map bounded: old entries go first, then the oldest half.
fn forget<K: Eq + Hash, V>(map: &mut HashMap<K, V>, now: Instant, last: impl Fn(&V) -> Instant) {
    if map.len() < REMEMBERED {
        return;
    }
    map.retain(|_, value| now.duration_since(last(value)) < MEMORY);
    if map.len() >= REMEMBERED {
        let mut times: Vec<_> = map.values().map(&last).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        map.retain(|_, value| last(value) > middle);
    }
}

/// A name that no other event has, which starts with the object's.
fn name(object: &str) -> String {
    let object: String = object.chars().take(200).collect();
    format!("{object}.{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests;
