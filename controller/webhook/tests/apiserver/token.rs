//! The controller's token, where the tests change the chart's objects and nodes: one after another
//! on a stage of their own.

mod nodes;
mod webhooks;

use anyhow::{Context, Result};

use crate::admission::controller;
use crate::stage::{REGISTRY, Stage};

#[test]
fn controller_token_writes_only_its_own_fields() -> Result<()> {
    let stage = Stage::with_values(&format!("{REGISTRY},joiningNodes.takeTaint=false"))?;
    nodes::no_taints(&stage).context("nodes without the right")?;
    stage.upgrade(&[])?;
    controller::own_fields(&stage).context("fields")?;
    webhooks::own_rules(&stage).context("webhook configurations")?;
    // Last, because it gives the token every right.
    nodes::only_image_taints(&stage).context("taints of nodes")
}
