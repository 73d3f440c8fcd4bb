//! The slots of a node, shared by namespaces: decides which pull begins next, and which one gives
//! its slot back.
//!
//! Every user with the right to create ImagePullJobs can put pulls on every node. A registry that
//! never ends an answer would hold a slot for as long as the timeout allows, and a few such pulls
//! would hold all slots.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::step::{Plan, Start};
use super::{Key, Limits, Now, Running, State, Task, Tasks};

/// A try without new bytes for this time fails if another pull waits for it.
pub(super) const STALLED: Duration = Duration::from_secs(60);
/// How long a try keeps its slot although its namespace has two slots more than a waiting one.
pub(super) const TURN: Duration = Duration::from_secs(60);
/// How long a try keeps the only slot of its namespace while a namespace without a slot waits: with
/// more namespaces than slots, they take turns.
pub(super) const LONG_TURN: Duration = Duration::from_secs(300);
pub(super) const TURN_OVER: &str =
    "its slot went to a pull of a namespace that had fewer; it goes on when a slot is free";

impl Tasks {
    /// Begins pulls in free slots, and frees the slots of tries whose turn is over.
    pub(super) fn take_turns(&mut self, plan: &mut Plan, limits: Limits, now: Now) {
        let owners: BTreeSet<&String> = self
            .tasks
            .values()
            .flat_map(|task| &task.namespaces)
            .collect();
        self.turns.retain(|namespace, _| owners.contains(namespace));
        self.fail_stalled(plan, limits, now);
        self.start(plan, limits, now);
        loop {
            let over = self
                .beyond_its_share(limits, now)
                .filter(|turn| turn.ends <= now.steady);
            let Some(Turn {
                of: (_, key), only, ..
            }) = over.min_by(|one, other| one.of.cmp(&other.of))
            else {
                return;
            };
            if let Some(task) = self.tasks.get_mut(&key)
                && let State::Running(running) = &task.state
            {
                plan.cancel.push(running.attempt);
                TURN_OVER.clone_into(&mut task.error);
                task.holds = 0;
                // Without a pause it would take the next free slot at once.
                task.state = State::Absent {
                    not_before: only.then(|| now.after(TURN)),
                };
            }
            self.start(plan, limits, now);
        }
    }

    /// When the next slot is given back, if no event comes before. `None` if no pull waits for a
    /// slot.
    pub(super) fn next_turn(&self, limits: Limits, now: Now) -> Option<Instant> {
        let blocked = self.blocked(limits, now);
        let stalls = self
            .under_way_by_key()
            .filter(|(key, _)| blocked.by(key))
            .filter_map(|(_, r)| r.stalls_at());
        let turns = self.beyond_its_share(limits, now).map(|turn| turn.ends);
        stalls.chain(turns).filter(|at| *at > now.steady).min()
    }

    /// Fails tries without new bytes, at most as many as the pulls that wait.
    fn fail_stalled(&mut self, plan: &mut Plan, limits: Limits, now: Now) {
        let blocked = self.blocked(limits, now);
        let mut stalled: Vec<(Instant, Key)> = (self.under_way_by_key())
            .filter_map(|(key, running)| Some((running.stalls_at()?, key.clone())))
            .filter(|(at, key)| *at <= now.steady && blocked.by(key))
            .collect();
        stalled.sort();
        let mut wait_for_slots = blocked.slots;
        for (_, key) in stalled {
            if !blocked.images.contains(&key.image) {
                let Some(left) = wait_for_slots.checked_sub(1) else {
                    continue;
                };
                wait_for_slots = left;
            }
            if let Some(task) = self.tasks.get_mut(&key)
                && let State::Running(running) = &task.state
            {
                plan.cancel.push(running.attempt);
                let (seconds, progress) = (STALLED.as_secs(), running.progress());
                task.fail(
                    format!("no bytes came for {seconds} s while other pulls wait{progress}"),
                    now,
                );
            }
        }
    }

    /// Begins a pull in each free slot. It is for the namespace with the fewest tries under way,
    /// among equal ones the namespace that has waited longest, and its oldest pull.
    fn start(&mut self, plan: &mut Plan, limits: Limits, now: Now) {
        while self.under_way() < limits.parallel.max(1) {
            let (shares, busy) = (self.shares(), self.busy());
            let next = self
                .waiting(now)
                .filter(|(key, _)| !busy.contains(key.image.as_str()))
                .flat_map(|(key, task)| {
                    let turn = |namespace: &'_ String| {
                        let last = self.turns.get(namespace).copied();
                        (
                            share(&shares, namespace),
                            last,
                            task.created,
                            key.clone(),
                            namespace.clone(),
                        )
                    };
                    task.namespaces.iter().map(turn).collect::<Vec<_>>()
                });
            let Some((_, _, _, key, namespace)) = next.min() else {
                return;
            };
            let Some(task) = self.tasks.get_mut(&key) else {
                return;
            };
            self.attempts += 1;
            task.begin(now);
            self.turns.insert(namespace.clone(), self.attempts);
            let (attempt, since) = (self.attempts, now.steady);
            task.state = State::Running(Running {
                attempt,
                since,
                namespace,
                bytes: None,
                advanced: None,
            });
            plan.start.push(Start { key, attempt });
        }
    }

    /// The tries of namespaces that have more slots than a waiting one, so that their turns end.
    fn beyond_its_share(&self, limits: Limits, now: Now) -> impl Iterator<Item = Turn> {
        let (shares, busy) = (self.shares(), self.busy());
        let is_full = self.under_way() >= limits.parallel.max(1);
        let waiting = self
            .waiting(now)
            .filter(|(key, _)| is_full && !busy.contains(key.image.as_str()));
        let least = waiting
            .flat_map(|(_, task)| &task.namespaces)
            .map(|namespace| share(&shares, namespace))
            .min();
        let length = |running: &Running| match (share(&shares, &running.namespace), least?) {
            (has, least) if has >= least + 2 => Some((TURN, false)),
            (_, 0) => Some((LONG_TURN, true)),
            _ => None,
        };
        let turns = self.under_way_by_key().filter_map(|(key, running)| {
            let (length, only) = length(running)?;
            Some(Turn {
                ends: running.since + length,
                of: (Reverse(running.since), key.clone()),
                only,
            })
        });
        turns.collect::<Vec<_>>().into_iter()
    }

    /// The pulls that wait for tries that are under way.
    fn blocked(&self, limits: Limits, now: Now) -> Blocked {
        let busy = self.busy();
        let is_full = self.under_way() >= limits.parallel.max(1);
        let mut blocked = Blocked::default();
        for (key, _) in self.waiting(now) {
            if busy.contains(key.image.as_str()) {
                blocked.images.insert(key.image.clone());
            } else if is_full {
                blocked.slots += 1;
            }
        }
        blocked
    }

    /// Pulls that could begin in a free slot.
    fn waiting(&self, now: Now) -> impl Iterator<Item = (&Key, &Task)> {
        let may_begin = move |task: &Task| matches!(&task.state, State::Absent { not_before } if not_before.is_none_or(|at| at.steady <= now.steady));
        self.tasks.iter().filter(move |(_, task)| may_begin(task))
    }

    fn under_way_by_key(&self) -> impl Iterator<Item = (&Key, &Running)> {
        self.tasks
            .iter()
            .filter_map(|(key, task)| match &task.state {
                State::Running(running) => Some((key, running)),
                _ => None,
            })
    }

    /// Images with a try under way.
    fn busy(&self) -> HashSet<&str> {
        self.under_way_by_key()
            .map(|(key, _)| key.image.as_str())
            .collect()
    }

    /// Tries under way by namespace.
    fn shares(&self) -> BTreeMap<&str, usize> {
        let mut shares = BTreeMap::new();
        for (_, running) in self.under_way_by_key() {
            *shares.entry(running.namespace.as_str()).or_default() += 1;
        }
        shares
    }
}

/// How long a try may keep its slot while others wait.
struct Turn {
    ends: Instant,
    /// The key of the order in which tries give up their slots. The try that began last is the
    /// least, because it loses the least.
    of: (Reverse<Instant>, Key),
    /// The try has the only slot of its namespace.
    only: bool,
}

fn share(shares: &BTreeMap<&str, usize>, namespace: &str) -> usize {
    shares.get(namespace).copied().unwrap_or_default()
}

/// Pulls that wait for tries that are under way.
#[derive(Default)]
struct Blocked {
    /// How many wait for a slot.
    slots: usize,
    /// Images of which another tag waits.
    images: HashSet<String>,
}

impl Blocked {
    /// Does a pull wait for the end of this try?
    fn by(&self, key: &Key) -> bool {
        self.slots > 0 || self.images.contains(&key.image)
    }
}

impl Running {
    /// When it counts as stalled. `None` while its bytes are not known, and when all of them are
    /// here: then the image is unpacked.
    fn stalls_at(&self) -> Option<Instant> {
        let is_complete = self.bytes.is_some_and(|bytes| bytes.missing() == 0);
        self.advanced
            .filter(|_| !is_complete)
            .map(|at| at + STALLED)
    }
}
