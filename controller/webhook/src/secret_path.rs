//! Paths that only the apiserver knows. Any client that reaches the port may send a review. If an
//! answer changes something, or contains data of other namespaces, the client must know the path,
//! which stands in a configuration that only administrators read.
//!
//! When a call fails, the apiserver reports the whole address to the author of the request. So the
//! paths rotate: replicas derive them from the authority's key and a number, which any replica
//! raises in the Secret. The leader and all replicas then write the new paths. Replicas know the
//! next numbers ahead, because the apiserver may call one by a new path before it has read the new
//! number.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many numbers after the newest a replica answers to: other replicas may rotate this often
/// before it reads the Secret.
const AHEAD: u64 = 8;
/// How many numbers before the newest a replica answers to in its first 30 s: the apiserver may
/// still call by them, because each start of another replica has raised the number.
const BEHIND: u64 = 6;
/// How long a path stays valid after it has left all configurations: until all apiservers have read
/// the new one.
const HOLDS: Duration = Duration::from_secs(30);
/// The time between two rotations.
const ROTATES_EVERY: Duration = Duration::from_secs(600);
/// The shortest time between two rotations after a refused connection or body: the apiserver may
/// have reported the path.
const ROTATES_AT_MOST_EVERY: Duration = Duration::from_secs(60);

/// A seed is derived from this text and a key. The text must differ from the one that an earlier
/// build derived path ends from: those ends were reported to authors of requests, and a known end
/// would reveal all paths.
const PURPOSE: &str = "berth: seed of the paths of the webhooks\n";

/// The seeds from which the last parts of the paths are derived, and when the next seed is due.
#[derive(Debug, Clone, Default)]
pub struct SecretPath {
    seeds: Arc<Mutex<Seeds>>,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Seeds {
    /// The seed of the paths to be written.
    newest: Option<Seed>,
    /// The seeds that come next.
    ahead: Vec<String>,
    old: Vec<Old>,
    /// When the newest seed came; `None` if another is due because this process has just started.
    since: Option<Instant>,
    /// Whether a call was refused since then.
    is_refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seed {
    key: String,
    number: u64,
    text: String,
}

/// An earlier seed.
#[derive(Debug)]
struct Old {
    text: String,
    /// Since when no configuration has a path of this seed; `None` while one may.
    gone: Option<Instant>,
}

impl Seed {
    /// The number 0 is the seed of earlier builds.
    fn new(key: &str, number: u64) -> Self {
        let text = match number {
            0 => hash([PURPOSE, key]),
            _ => hash([PURPOSE, key, &number.to_string()]),
        };
        Self {
            key: hash([key]),
            number,
            text,
        }
    }
}

impl Old {
    fn holds(&self, now: Instant) -> bool {
        self.gone
            .is_none_or(|gone| now.saturating_duration_since(gone) < HOLDS)
    }
}

impl Seeds {
    fn learn(&mut self, key: &str, number: u64, now: Instant) {
        let seed = Seed::new(key, number);
        if key.is_empty() || self.newest.as_ref() == Some(&seed) {
            return;
        }
        let before = self.newest.replace(seed.clone());
        // Other replicas may have written paths of the numbers in between.
        let skipped = match &before {
            None => number.saturating_sub(BEHIND)..number,
            Some(before) if before.key == seed.key => {
                before.number.max(number.saturating_sub(AHEAD))..number
            }
            Some(_) => number..number,
        };
        let skipped = skipped.map(|number| Seed::new(key, number).text);
        for text in before
            .iter()
            .map(|before| before.text.clone())
            .chain(skipped)
        {
            self.old.retain(|old| old.text != text);
            self.old.push(Old { text, gone: None });
        }
        self.old
            .retain(|old| old.text != seed.text && old.holds(now));
        let next = number.saturating_add(1)..=number.saturating_add(AHEAD);
        self.ahead = next.map(|number| Seed::new(key, number).text).collect();
        // Replicas of an earlier build know only the number 0. They are gone within the first
        // interval.
        let is_begun = before.is_some() || number == 0;
        (self.since, self.is_refused) = (is_begun.then_some(now), false);
    }

    fn look(&mut self, called: &[String], now: Instant) {
        for old in &mut self.old {
            let is_called = called.iter().any(|path| is_of(path, &old.text));
            old.gone = if is_called {
                None
            } else {
                old.gone.or(Some(now))
            };
        }
        self.old.retain(|old| old.holds(now));
    }

    fn is_written(&self) -> bool {
        self.old.iter().all(|old| old.gone.is_some())
    }

    fn rotates_in(&self, now: Instant) -> Option<Duration> {
        self.newest.as_ref().filter(|_| self.is_written())?;
        let Some(since) = self.since else {
            return Some(Duration::ZERO);
        };
        let wait = if self.is_refused {
            ROTATES_AT_MOST_EVERY
        } else {
            ROTATES_EVERY
        };
        Some((since + wait).saturating_duration_since(now))
    }

    fn is_known(&self, path: &str, now: Instant) -> bool {
        let newest = self.newest.iter().map(|newest| &newest.text);
        let old = self
            .old
            .iter()
            .filter(|old| old.holds(now))
            .map(|old| &old.text);
        newest
            .chain(&self.ahead)
            .chain(old)
            .filter(|seed| is_of(path, seed))
            .count()
            > 0
    }
}

impl SecretPath {
    /// Uses this authority's key and the Secret's number from now on.
    pub(crate) fn learn(&self, key: &str, number: u64) {
        self.lock().learn(key, number, Instant::now());
    }

    /// Notes the paths in all configurations by which the apiserver is to call.
    pub(crate) fn look(&self, called: &[String]) {
        self.lock().look(called, Instant::now());
    }

    /// Whether [`Self::look`] is due: paths of earlier seeds are known.
    pub(crate) fn has_old(&self) -> bool {
        !self.lock().old.is_empty()
    }

    /// How long until the next seed is due; `None` while the newest one is not written everywhere.
    pub(crate) fn rotates_in(&self) -> Option<Duration> {
        self.lock().rotates_in(Instant::now())
    }

    /// Notes that a connection or a review was refused, so that the apiserver may have reported a
    /// path.
    pub(crate) fn refused(&self) {
        // Notifies once for each rotation, so that a flood of refusals causes no further passes.
        if !std::mem::replace(&mut self.lock().is_refused, true) {
            self.wake.notify_one();
        }
    }

    /// Notified when a call was refused.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// The seed of the paths to be written; `None` before a key is known.
    pub(crate) fn newest(&self) -> Option<String> {
        self.lock()
            .newest
            .as_ref()
            .map(|newest| newest.text.clone())
    }

    /// Whether the apiserver may call by this path. The time depends only on the length of the
    /// path.
    pub(crate) fn is_known(&self, path: &str) -> bool {
        self.lock().is_known(path, Instant::now())
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Seeds> {
        self.seeds.lock()
    }
}

/// The secret path below this one. Each handler has an end of its own: when a call fails, the
/// apiserver reports the whole address to the author of the object, and that must reveal no other
/// path.
pub(crate) fn handler_path(below: &str, seed: &str) -> String {
    format!("{below}/{}", hash([seed, "\n", below]))
}

/// Whether a path is derived from this seed.
fn is_of(path: &str, seed: &str) -> bool {
    let Some((below, _)) = path.rsplit_once('/') else {
        return false;
    };
    is_same(&handler_path(below, seed), path)
}

/// Whether two texts are the same. The time depends only on their length.
pub(crate) fn is_same(known: &str, shown: &str) -> bool {
    known.len() == shown.len()
        && known
            .bytes()
            .zip(shown.bytes())
            .fold(0, |all, (a, b)| all | (a ^ b))
            == 0
}

fn hash<const N: usize>(parts: [&str; N]) -> String {
    let digest = parts
        .iter()
        .fold(Sha256::new(), |digest, part| digest.chain_update(part))
        .finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
