//! One replica at a time on one stage: each part starts a replica, and ends it.

use anyhow::{Context, Result};

use crate::stage::Stage;
use crate::{migration, repair, validation};

#[test]
fn replica_validates_repairs_and_migrates() -> Result<()> {
    let stage = Stage::with_chart()?;
    validation::bad_template_is_refused_and_webhook_is_optional(&stage).context("validation")?;
    stage.remove_replicas()?;
    repair::wiped_bundles_and_a_deleted_secret_are_repaired(&stage).context("repair")?;
    stage.remove_replicas()?;
    repair::helm_keeps_bundle_and_replaced_bundle_is_repaired(&stage).context("helm")?;
    stage.remove_replicas()?;
    let images = "nodeimages.v1beta1.apps.kruise.io";
    stage.kubectl(&["delete", images, "--all"], None)?;
    // Last, because it removes a version.
    migration::every_object_is_stored_in_v1beta1_and_then_v1alpha1_can_go(&stage)
        .context("migration")
}
