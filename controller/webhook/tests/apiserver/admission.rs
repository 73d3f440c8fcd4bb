//! The policies that bind the daemon's and the controller's tokens and the authors of objects.
//!
//! The tests share one stage, which ends with the last test that holds it. This module's name sorts
//! first, so that the tests start together: a test that starts alone starts a stage of its own.

mod budgets;
mod claims;
pub(crate) mod controller;
mod daemon;
mod daemon_sets;
mod federation;
mod jobs;
mod requests;
mod rights;
mod states;
mod taken_over;

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::Value;

/// The options of a write by which a test checks whether a policy is in force yet: a write that is
/// still allowed changes nothing for the next one.
pub(crate) fn trial() -> PatchParams {
    PatchParams::default().dry_run()
}

/// A JSON merge patch.
pub(crate) fn merge(body: Value) -> Patch<Value> {
    Patch::Merge(body)
}

pub(crate) fn refused<T>(what: &str, answer: Result<T, kube::Error>, says: &str) -> Result<()> {
    match answer {
        Ok(_) => anyhow::bail!("{what} was allowed"),
        Err(kube::Error::Api(status)) => {
            ensure!(status.code == 403, "{what}: {status:?}");
            ensure!(
                status.message.contains(says),
                "{what}: {:?} does not say {says:?}",
                status.message
            );
            Ok(())
        }
        Err(error) => Err(error).with_context(|| what.to_owned()),
    }
}
