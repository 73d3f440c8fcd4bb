//! The promises of a rollout, checked at every moment of a record.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use crate::record::{Moment, Record, seconds};
use crate::suite::broken;

/// The limits that must hold at every instant of a rollout.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// `replicas` less `maxUnavailable`: the minimum number of available pods.
    pub available: usize,
    /// `minReadySeconds`: how long a pod must have served to count as available.
    pub min_ready: Duration,
    /// `replicas` plus `maxSurge`: the maximum number of pods, without terminating ones.
    pub active: usize,
    /// The new revision, and `partition`: the minimum number of pods of other revisions.
    pub kept: Option<(String, usize)>,
}

/// A promise that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Since the record began.
    pub at: Duration,
    /// The broken promise.
    pub promise: Promise,
    /// The number that the limit allows.
    pub limit: usize,
    /// The number that was found.
    pub found: usize,
    /// All pods at that moment.
    pub pods: String,
}

/// A promise of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Not fewer available pods than `replicas` less `maxUnavailable`.
    MaxUnavailable,
    /// Not more pods than `replicas` plus `maxSurge`.
    MaxSurge,
    /// Not fewer pods of an old revision than `partition`.
    Partition,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation {
            at,
            promise,
            limit,
            found,
            pods,
        } = self;
        let (what, bound) = match promise {
            Promise::MaxUnavailable => ("available", "at least"),
            Promise::MaxSurge => ("active", "at most"),
            Promise::Partition => ("of an old revision", "at least"),
        };
        write!(
            f,
            "at {} {found} pods were {what}, {bound} {limit} are promised by {promise:?}: {pods}",
            seconds(*at)
        )
    }
}

impl Limits {
    /// Demands that every moment of the record keeps all promises.
    ///
    /// # Errors
    /// [`crate::suite::Broken`], with the first moment that breaks one.
    pub fn ensure_kept(&self, record: &Record) -> Result<()> {
        let violations = self.violations(record);
        let Some(first) = violations.first() else {
            return Ok(());
        };
        Err(broken(format!(
            "{} moments break a promise, the first: {first}",
            violations.len()
        )))
    }

    /// Every moment of the record that breaks a promise. Empty when all held.
    pub fn violations(&self, record: &Record) -> Vec<Violation> {
        record
            .moments()
            .flat_map(|moment| self.at(&moment))
            .collect()
    }

    fn at(&self, moment: &Moment<'_>) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut note = |promise, limit, count| {
            found.push(Violation {
                at: moment.at,
                promise,
                limit,
                found: count,
                pods: moment.describe(),
            });
        };
        let available = moment.available(self.min_ready);
        if available < self.available {
            note(Promise::MaxUnavailable, self.available, available);
        }
        if moment.active() > self.active {
            note(Promise::MaxSurge, self.active, moment.active());
        }
        if let Some((revision, least)) = &self.kept {
            let kept = moment.active() - moment.of_revision(revision);
            if kept < *least {
                note(Promise::Partition, *least, kept);
            }
        }
        found
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
