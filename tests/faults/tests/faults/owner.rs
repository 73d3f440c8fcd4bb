//! Who lets pods into an update and out of it: the owner of a lifecycle hook.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_api::names::label;
use berth_e2e::objects::{self, APP, kind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::case::{Case, SET};
use crate::world::PATIENCE;

/// The label that holds a pod where it is, and lets it back into service.
pub(crate) const HOOK: &str = "berth.test/hold";

/// Takes the label off each pod that waits for its update, and gives it back to each that was updated, until so many were.
pub(crate) async fn let_all_through(case: &Case<'_>, pods: usize) -> Result<()> {
    let client = &case.world.client;
    let deadline = Instant::now() + PATIENCE;
    let mut through = 0;
    while through < pods {
        ensure!(Instant::now() < deadline, "only {through} pods came through their hooks");
        for pod in objects::list(client, &case.namespace, kind::POD, &format!("{APP}={SET}")).await? {
            let held = pod["metadata"]["labels"][HOOK].is_string();
            let hook = match pod["metadata"]["labels"][label::LIFECYCLE_STATE].as_str() {
                Some("PreparingUpdate") if held => Value::Null,
                Some("Updated") if !held => json!("true"),
                _ => continue,
            };
            through += usize::from(hook.is_string());
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let patch = json!({"metadata": {"labels": {HOOK: hook}}});
            objects::patch(client, &case.namespace, kind::POD, name, &patch).await?;
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
