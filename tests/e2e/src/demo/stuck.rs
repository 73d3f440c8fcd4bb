//! The demo's part on the plugin: a rollout that cannot go on, and the reason.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::NAME;
use crate::objects::{self, kind};
use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(180);

/// Changes the image to one that does not exist, shows what the plugin says of the rollout, and
/// rolls it back.
///
/// # Errors
/// The rollout is not blocked, or does not end after the rollback.
pub(super) async fn show(site: &Site, namespace: &str, images: &[String]) -> Result<()> {
    let client = site.client();
    let missing = site.image("hello:missing");
    println!("\nA rollout to {missing}, an image that does not exist:");
    let before = objects::get(client, namespace, kind::CLONE_SET, NAME).await?;
    let mut change = objects::image_patch(&before, &missing);
    change["spec"]["updateStrategy"] =
        json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}});
    objects::patch(client, namespace, kind::CLONE_SET, NAME, &change).await?;
    let blocked = |set: &Value| {
        let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "Blocked" && one["status"] == "True")
    };
    let stuck = objects::until(client, namespace, kind::CLONE_SET, NAME, PATIENCE, blocked);
    stuck.await.context("the rollout is not blocked")?;
    for command in ["get", "why"] {
        let object = format!("clone/{NAME}");
        println!("\n$ kubectl berth {command} {object} -n {namespace}");
        print!("{}", site.plugin(&[command, &object, "-n", namespace])?);
    }
    let back = objects::image_patch(&before, &images[1]);
    objects::patch(client, namespace, kind::CLONE_SET, NAME, &back).await?;
    let done = objects::until(
        client,
        namespace,
        kind::CLONE_SET,
        NAME,
        PATIENCE,
        objects::is_done,
    );
    done.await.context("the rollback does not end").map(drop)
}
