//! How many pods to create, delete and update now.
//!
//! One rule applies to every number. A step may take an available pod out of service only while the
//! available pods exceed `replicas - maxUnavailable`. Pods that are unavailable already cost
//! nothing. But no more than `maxUnavailable` pods of the wanted revision may be unavailable at a
//! time, so that a rollout of a bad image stops by itself. Broken pods have their own rule, see
//! [`repair`].

pub mod repair;

pub use repair::Repair;

/// The workload's spec, as absolute numbers.
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
    /// A pod whose deletion was requested is replaced first: at least one surge pod, even if
    /// `max_surge` is 0.
    pub replaces_first: bool,
    /// Unavailable pods at which scaling up stops (`scaleStrategy.maxUnavailable`).
    pub scale_max_unavailable: usize,
    /// Pods are updated by the controller: neither paused nor `OnDelete`.
    pub updates: bool,
    /// A raised partition brings updated pods back to the old revision.
    pub rolls_back: bool,
    /// Whether pods that a hook holds before deletion do not count
    /// (`scaleStrategy.excludePreparingDelete`).
    pub exclude_preparing_delete: bool,
}

/// The properties of one active pod that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// At the wanted revision.
    pub updated: bool,
    /// At the revision that pods inside the partition have.
    pub current: bool,
    /// In service for long enough.
    pub available: bool,
    /// It has a node.
    pub scheduled: bool,
    /// Its containers are not ready, independent of readiness gates and hooks.
    pub broken: bool,
    /// A user or another controller asked for its deletion.
    pub to_delete: bool,
    /// A hook holds it before its deletion.
    pub preparing_delete: bool,
}

/// The numbers of pods to create, delete and update now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Pods to create at the wanted revision.
    pub create_updated: usize,
    /// Pods to create at the old revision.
    pub create_old: usize,
    /// Pods that are missing but may not be created yet.
    pub create_later: usize,
    /// Old pods to scale down, beyond the ones whose deletion was requested.
    pub delete_old: usize,
    /// Updated pods to scale down, beyond the ones whose deletion was requested.
    pub delete_updated: usize,
    /// Pods to bring to another revision.
    pub update: usize,
    /// The direction: updated pods back to the old revision, instead of old pods to the wanted one.
    pub back: bool,
    /// Available pods that may be taken out of service.
    pub disruptions: usize,
    /// Pods of the target revision that may become or stay unavailable, beyond the ones that are.
    pub updated_unavailable: usize,
    /// Broken pods that may be updated beyond the limits.
    pub repair: Repair,
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
    preparing_delete_old: usize,
    preparing_delete: usize,
    unavailable: usize,
    forward: Side,
    back: Side,
}

/// The counts for updates of one direction.
#[derive(Debug, Default)]
struct Side {
    /// Unavailable pods of the target revision, for any reason.
    target_unavailable: usize,
    /// The unavailable ones that should serve: they have a node, and nothing asks for their
    /// deletion.
    target_fails: usize,
    /// Broken pods that may be updated to the target revision.
    broken: usize,
}

impl Numbers {
    /// Subtracts a pod that fills the place of a pod to create, preferably one of its own revision.
    pub fn fill(&mut self, updated: bool) {
        let (first, then) = if updated {
            (&mut self.create_updated, &mut self.create_old)
        } else {
            (&mut self.create_old, &mut self.create_updated)
        };
        let place = if *first > 0 { first } else { then };
        *place = place.saturating_sub(1);
    }
}

/// Computes the numbers from all active pods.
pub fn numbers(wanted: &Wanted, pods: impl Iterator<Item = Held>) -> Numbers {
    let tally = Tally::of(pods);
    let (update, back) = if wanted.updates {
        tally.to_update(wanted)
    } else {
        (0, false)
    };
    let (surge, surge_old) = surge(wanted, &tally, update, back);
    let side = if back { &tally.back } else { &tally.forward };
    let mut numbers = Numbers {
        update,
        back,
        disruptions: tally
            .available
            .saturating_sub(wanted.replicas.saturating_sub(wanted.max_unavailable)),
        updated_unavailable: (wanted.max_unavailable + tally.total)
            .saturating_sub(wanted.replicas + side.target_unavailable),
        repair: Repair::new(side.broken, side.target_fails),
        surge,
        ..Numbers::default()
    };
    let excluded = wanted.exclude_preparing_delete;
    let counted = tally.total - if excluded { tally.preparing_delete } else { 0 };
    // An old pod counts here, held by a hook or not, as long as it counts towards the replicas.
    let counted_old = tally.old
        + if excluded {
            0
        } else {
            tally.preparing_delete_old
        };
    let expected = wanted.replicas + surge;
    let expected_old = wanted.partition + surge_old;
    if counted < expected {
        scale_up(
            &mut numbers,
            wanted,
            &tally,
            expected - counted,
            expected_old.saturating_sub(counted_old),
        );
    }
    // A pod that will be deleted anyway, held by a hook or not, is no reason to delete another.
    let staying = tally.old + tally.updated - tally.old_to_delete - tally.updated_to_delete;
    if staying > expected {
        let old = (tally.old - tally.old_to_delete).saturating_sub(expected_old);
        numbers.delete_old = old.min(staying - expected);
        numbers.delete_updated = staying - expected - numbers.delete_old;
    }
    numbers
}

fn scale_up(
    numbers: &mut Numbers,
    wanted: &Wanted,
    tally: &Tally,
    missing: usize,
    missing_old: usize,
) {
    let now = missing.min(
        wanted
            .scale_max_unavailable
            .saturating_sub(tally.unavailable),
    );
    numbers.create_old = missing_old.min(now);
    numbers.create_updated = now - numbers.create_old;
    numbers.create_later = missing - now;
}

/// Pods above `replicas`, and how many of them must be of the old revision. They are either
/// replacements for needed pods whose deletion was requested, or new pods that let others leave.
/// The two numbers are never added.
fn surge(wanted: &Wanted, tally: &Tally, update: usize, back: bool) -> (usize, usize) {
    let to_delete = tally.old_to_delete + tally.updated_to_delete;
    let replaces_first = wanted.replaces_first && to_delete > 0;
    if wanted.max_surge == 0 && !replaces_first {
        return (0, 0);
    }
    let beyond = if replaces_first {
        to_delete
    } else {
        (tally.unavailable + to_delete)
            .saturating_sub(wanted.max_unavailable)
            .min(to_delete)
    };
    let needed = if replaces_first {
        update.min(wanted.max_surge)
    } else {
        update
    };
    if beyond < needed || beyond == 0 {
        let surge = wanted.max_surge.min(update);
        return (surge, if back { surge } else { 0 });
    }
    let surge = wanted
        .max_surge
        .max(usize::from(replaces_first))
        .min(beyond);
    let staying_old = tally.old - tally.old_to_delete;
    (
        surge,
        surge
            .saturating_sub(tally.updated_to_delete)
            .min(wanted.partition.saturating_sub(staying_old)),
    )
}

impl Tally {
    fn of(pods: impl Iterator<Item = Held>) -> Self {
        let mut tally = Self::default();
        for pod in pods {
            tally.total += 1;
            tally.available += usize::from(pod.available);
            tally.forward.add(&pod, pod.updated, !pod.updated);
            tally.back.add(&pod, pod.current, pod.updated);
            // A held pod whose deletion was requested counts once, as held, because it is out of
            // service already.
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

    /// Old pods beyond the partition, but no more than updated pods are missing. If the partition
    /// was raised, the same for updated pods in the other direction. Pods whose deletion was
    /// requested are replaced, so that they count for neither.
    fn to_update(&self, wanted: &Wanted) -> (usize, bool) {
        let wanted_updated = wanted.replicas - wanted.partition;
        let staying_old = self.old - self.old_to_delete;
        let forward = staying_old
            .saturating_sub(wanted.partition)
            .min(wanted_updated.saturating_sub(self.updated));
        let back = wanted
            .partition
            .saturating_sub(self.old)
            .min(self.updated.saturating_sub(wanted_updated));
        if wanted.rolls_back && back > 0 {
            (back, true)
        } else {
            (forward, false)
        }
    }
}

impl Side {
    fn add(&mut self, pod: &Held, target: bool, source: bool) {
        let stays = !pod.to_delete && !pod.preparing_delete;
        self.target_unavailable += usize::from(target && !pod.available);
        self.target_fails += usize::from(target && !pod.available && pod.scheduled && stays);
        self.broken += usize::from(source && pod.broken && stays);
    }
}

/// A pod that may be updated, as the limits see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// In service for long enough.
    pub available: bool,
    /// Its containers are not ready.
    pub broken: bool,
    /// Its update has begun.
    pub begun: bool,
}

/// How many of the candidates, in their order, may be updated now.
pub fn admitted(numbers: &Numbers, candidates: impl Iterator<Item = Candidate>) -> usize {
    let (mut disruptions, mut free) = (numbers.disruptions, numbers.repair.free);
    let mut admitted = 0;
    for candidate in candidates.take(numbers.update) {
        if candidate.broken && (candidate.begun || free > 0) {
            free = free.saturating_sub(1);
        } else if admitted >= numbers.updated_unavailable
            || (candidate.available && disruptions == 0)
        {
            break;
        } else {
            disruptions -= usize::from(candidate.available);
        }
        admitted += 1;
    }
    admitted
}

#[cfg(test)]
mod tests;
