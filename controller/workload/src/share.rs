//! How many objects of a kind count in one namespace.

use berth_api::commands;

/// The most PodUnavailableBudgets, DistributedPodDisruptionBudgets and PersistentPodStates, each,
/// that count in one namespace.
pub const MOST: usize = 500;

/// Keeps the objects that count: the oldest, by name where two are of one time.
pub fn keep_oldest<T, K: Ord>(all: &mut Vec<T>, age: impl Fn(&T) -> K) {
    if all.len() > MOST {
        all.select_nth_unstable_by_key(MOST, age);
        all.truncate(MOST);
    }
}

/// Whether an object of this age exceeds the limit. The other ages may include its own.
pub fn is_beyond<K: Ord>(age: &K, all: impl Iterator<Item = K>) -> bool {
    all.filter(|other| other < age).nth(MOST - 1).is_some()
}

/// Why an object does not count, and the remedy.
pub fn beyond(kind: &str, namespace: &str, name: &str, holds: &str) -> String {
    let group = if kind == "PersistentPodState" {
        "apps.kruise.io"
    } else {
        "policy.kruise.io"
    };
    let list = commands::list(&format!("{}s.{group}", kind.to_lowercase()), namespace);
    format!(
        "{kind} {namespace}/{name} {holds}: {MOST} older ones of the namespace count, and no more; \
         delete those that are not needed: {list}"
    )
}

#[cfg(test)]
mod tests;
