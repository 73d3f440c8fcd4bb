//! How many pods to create, delete and update now.
//!
//! One rule stands behind every number: a step may take an available pod out of service only while the available pods
//! exceed `replicas - maxUnavailable`. What the step finds unavailable already costs nothing, but no more than
//! `maxUnavailable` pods of the wanted revision may be unavailable at a time, so that a bad image stops by itself.

/// What the workload asks for, as absolute numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Desired pods.
    pub replicas: usize,
    /// Pods that stay at the old revision; at most `replicas`.
    pub partition: usize,
    /// Pods that may be unavailable.
    pub max_unavailable: usize,
    /// Pods that may exist above `replicas`.
    pub max_surge: usize,
    /// Unavailable pods at which scaling up stops (`scaleStrategy.maxUnavailable`).
    pub scale_max_unavailable: usize,
    /// Pods are updated by the controller: neither paused nor `OnDelete`.
    pub updates: bool,
    /// Pods that a hook holds before deletion do not count (`scaleStrategy.excludePreparingDelete`).
    pub exclude_preparing_delete: bool,
}

/// What counts of one active pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// At the wanted revision.
    pub updated: bool,
    /// In service for long enough.
    pub available: bool,
    /// Somebody asked for its deletion.
    pub to_delete: bool,
    /// A hook holds it before its deletion.
    pub preparing_delete: bool,
}

/// What may be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Pods to create at the wanted revision.
    pub create_updated: usize,
    /// Pods to create at the old revision.
    pub create_old: usize,
    /// Pods that are missing but may not be created yet.
    pub create_later: usize,
    /// Old pods to scale down, beyond those that were asked to go.
    pub delete_old: usize,
    /// Updated pods to scale down, beyond those that were asked to go.
    pub delete_updated: usize,
    /// Old pods to update.
    pub update: usize,
    /// Available pods that may be taken out of service.
    pub disruptions: usize,
    /// Pods of the wanted revision that may become or stay unavailable, beyond those that are.
    pub updated_unavailable: usize,
    /// Pods above `replicas` that the workload wants at this moment.
    pub surge: usize,
}

/// Pods by what they count as.
#[derive(Debug, Default)]
struct Tally {
    total: usize,
    available: usize,
    old: usize,
    updated: usize,
    old_to_delete: usize,
    updated_to_delete: usize,
    updated_unavailable: usize,
    preparing_delete_old: usize,
    preparing_delete: usize,
    unavailable: usize,
}

/// Computes the numbers from all active pods.
pub fn numbers(wanted: &Wanted, pods: impl Iterator<Item = Held>) -> Numbers {
    let tally = Tally::of(pods);
    let to_update = if wanted.updates { tally.to_update(wanted) } else { 0 };
    let (surge, surge_old) = surge(wanted, &tally, to_update);
    let mut numbers = Numbers {
        update: to_update,
        disruptions: tally.available.saturating_sub(wanted.replicas.saturating_sub(wanted.max_unavailable)),
        updated_unavailable: (wanted.max_unavailable + tally.total)
            .saturating_sub(wanted.replicas + tally.updated_unavailable),
        surge,
        ..Numbers::default()
    };
    let excluded = wanted.exclude_preparing_delete;
    let counted = tally.total - if excluded { tally.preparing_delete } else { 0 };
    // An old pod counts here, held by a hook or not, as long as it counts towards the replicas.
    let counted_old = tally.old + if excluded { 0 } else { tally.preparing_delete_old };
    let expected = wanted.replicas + surge;
    let expected_old = wanted.partition + surge_old;
    if counted < expected {
        scale_up(&mut numbers, wanted, &tally, expected - counted, expected_old.saturating_sub(counted_old));
    }
    // What a hook holds before its deletion goes by itself, and no other pod has to go for it.
    let staying = tally.old + tally.updated - tally.old_to_delete - tally.updated_to_delete;
    if staying > expected {
        let old = tally.old.saturating_sub(tally.old_to_delete + expected_old);
        numbers.delete_old = old.min(staying - expected);
        numbers.delete_updated = staying - expected - numbers.delete_old;
    }
    numbers
}

fn scale_up(numbers: &mut Numbers, wanted: &Wanted, tally: &Tally, missing: usize, missing_old: usize) {
    let now = missing.min(wanted.scale_max_unavailable.saturating_sub(tally.unavailable));
    numbers.create_old = missing_old.min(now);
    numbers.create_updated = now - numbers.create_old;
    numbers.create_later = missing - now;
}

/// Pods above `replicas`, and how many of them must be of the old revision: replacements for pods that somebody asked
/// to delete and that are needed first, or new pods that let old ones go. Never both sums at once.
fn surge(wanted: &Wanted, tally: &Tally, to_update: usize) -> (usize, usize) {
    if wanted.max_surge == 0 {
        return (0, 0);
    }
    let to_delete = tally.old_to_delete + tally.updated_to_delete;
    let beyond = (tally.unavailable + to_delete).saturating_sub(wanted.max_unavailable).min(to_delete);
    if beyond < to_update || beyond == 0 {
        return (wanted.max_surge.min(to_update), 0);
    }
    let surge = wanted.max_surge.min(beyond);
    let staying_old = tally.old - tally.old_to_delete;
    (surge, surge.saturating_sub(tally.updated_to_delete).min(wanted.partition.saturating_sub(staying_old)))
}

impl Tally {
    fn of(pods: impl Iterator<Item = Held>) -> Self {
        let mut tally = Self::default();
        for pod in pods {
            tally.total += 1;
            tally.available += usize::from(pod.available);
            tally.updated_unavailable += usize::from(pod.updated && !pod.available);
            // A pod that is held and asked to go counts once, as held: it is out of service already.
            if pod.preparing_delete {
                tally.preparing_delete += 1;
                tally.preparing_delete_old += usize::from(!pod.updated);
                tally.unavailable += 1;
                continue;
            }
            tally.old += usize::from(!pod.updated);
            tally.updated += usize::from(pod.updated);
            if pod.to_delete {
                tally.old_to_delete += usize::from(!pod.updated);
                tally.updated_to_delete += usize::from(pod.updated);
            } else {
                tally.unavailable += usize::from(!pod.available);
            }
        }
        tally
    }

    /// Old pods beyond the partition, but no more than updated pods are missing.
    fn to_update(&self, wanted: &Wanted) -> usize {
        let beyond = self.old.saturating_sub(wanted.partition);
        beyond.min((wanted.replicas - wanted.partition).saturating_sub(self.updated))
    }
}

/// How many of the candidates, in their order, may be updated now. `available` says which of them serve.
pub fn admitted(numbers: &Numbers, available: impl Iterator<Item = bool>) -> usize {
    let mut disruptions = numbers.disruptions;
    let mut admitted = 0;
    for available in available.take(numbers.update) {
        if admitted == numbers.updated_unavailable || (available && disruptions == 0) {
            break;
        }
        disruptions -= usize::from(available);
        admitted += 1;
    }
    admitted
}

#[cfg(test)]
mod tests;
