//! The laws that each scenario must keep.

use anyhow::{Context, Result};
use berth_e2e::record::Record;
use berth_faults::Ledger;
use http::Method;
use jiff::SignedDuration;

use crate::clone_set::Rollout;
use crate::laws;
use crate::owner::{HOOK, READY};

impl Rollout {
    /// Checks the record of the pods. `revision` is the name of the newest in the end, `told_to_go`
    /// that of the only pod that may be deleted, if there is one.
    pub(crate) fn check_record(
        self,
        record: &Record,
        revision: &str,
        told_to_go: Option<&str>,
    ) -> Result<()> {
        let last = record.last();
        let newest = last
            .label_of(revision)
            .with_context(|| format!("no pod is of {revision}: {}", last.describe()))?;
        let wanted = self.expected();
        laws::limits_hold(record, &self.limits(newest))?;
        laws::begins_with(record, self.pods_before())?;
        laws::no_image_changes_in_service(record, None)?;
        laws::restarts_are_for_image_changes(record, wanted.image_changes)?;
        match self {
            Rollout::Hooks => laws::updates_wait_for(record, HOOK)?,
            Rollout::Guarded => {
                laws::service_waits_for(record, READY)?;
                laws::deletions_wait_for(record, HOOK)?;
            }
            Rollout::Recreate | Rollout::Claims => laws::newest_pods_stay(record, newest)?,
            _ => {}
        }
        if let Some(told) = told_to_go {
            laws::others_stay(record, told)?;
        }
        laws::pods_are_created(record, wanted.creates)
    }

    /// Checks the controller's writes.
    pub(crate) fn check_writes(self, ledger: &Ledger) -> Result<()> {
        let wanted = self.expected();
        let counts = [
            (Method::POST, "pods", wanted.creates),
            (Method::DELETE, "pods", wanted.deletes),
            (Method::POST, "persistentvolumeclaims", wanted.claims),
            // Garbage collection deletes them, after their pods.
            (Method::DELETE, "persistentvolumeclaims", 0),
            (Method::POST, "configmaps", wanted.barriers),
            (Method::POST, "controllerrevisions", wanted.revisions),
            (Method::DELETE, "controllerrevisions", 0),
            (Method::PATCH, "clonesets", wanted.cleaned),
        ];
        laws::writes_are(ledger, counts)?;
        laws::no_claim_is_made_twice(ledger)?;
        if wanted.claims > 0 {
            laws::claims_come_before_pods(ledger)?;
        }
        laws::grace_goes_by(ledger, SignedDuration::from_secs(self.grace_seconds()))
    }
}
