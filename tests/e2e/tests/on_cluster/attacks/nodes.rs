//! Jobs of a tenant that would block nodes for all other users.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_api::v1beta1::NodeImage;
use berth_cluster::Image;
use berth_e2e::objects::kind;
use serde_json::{Value, json};

use super::attack_by_tenant;
use crate::pulls::{self, PART, Way};
use crate::trust;
use crate::world::Case;

fn job(name: &str, image: &str, more: Value) -> Value {
    let mut job = pulls::job(name, image, more);
    job["spec"]["selector"] = json!({"names": ["node-1"]});
    job
}

/// The fields that a job may not have, and words that the refusal must have.
pub(crate) async fn jobs_over_a_limit_are_refused(case: &Case) -> Result<()> {
    let fat: String = "x".repeat(900_000);
    attack_by_tenant(case, async |tenant| {
        let mut accepted = Vec::new();
        for (name, more, words) in [
            (
                "fat",
                json!({"sandboxConfig": {"annotations": {"a": fat}}}),
                "sandboxConfig",
            ),
            (
                "slow",
                json!({"pullPolicy": {"timeoutSeconds": i32::MAX}}),
                "timeoutSeconds",
            ),
            (
                "stubborn",
                json!({"pullPolicy": {"backoffLimit": i32::MAX}}),
                "backoffLimit",
            ),
        ] {
            match tenant.create(&job(name, "nowhere:1", more)).await {
                Ok(_) => accepted.push(words),
                Err(error) => {
                    ensure!(
                        format!("{error:#}").contains(words),
                        "the refusal does not say {words}: {error:#}"
                    )
                }
            }
        }
        ensure!(accepted.is_empty(), "no limit was known for {accepted:?}");
        Ok(())
    })
    .await
}

/// Five stalled pulls, as from a registry that sends a byte a minute, take all slots of a node.
/// Another namespace's pull gets one all the same.
pub(crate) async fn a_registry_that_stands_still_leaves_slots(case: &Case) -> Result<()> {
    const SLOTS: usize = 5;
    const SIZE: usize = 32 << 20;
    let names: Vec<String> = (0..SLOTS)
        .map(|number| format!("{}-{number}:v1", case.namespace))
        .collect();
    let pushed = names.clone();
    let push = case.blocking(move |site| {
        pushed.iter().try_for_each(|name| {
            site.push(&Image::scratch().noise("noise", name, SIZE), &[name])
                .map(drop)
        })
    });
    push.await?;
    let small = case.image("v1").await?;
    attack_by_tenant(case, async |tenant| {
        let [way] = Way::of(case, [1]).await?;
        for (number, name) in names.iter().enumerate() {
            let image = case.site.image(name);
            let more = json!({"pullPolicy": {"timeoutSeconds": 3600, "backoffLimit": 0}});
            tenant
                .create(&job(&format!("still{number}"), &image, more))
                .await?;
            // Earlier pulls take their part of the allowed bytes, too.
            let begun = |node: &NodeImage| {
                way.valve.allow(PART / 64);
                pulls::said_of(node, &image).is_some_and(pulls::in_the_middle)
            };
            pulls::until_node(case, 1, begun).await?;
        }
        // These five are stalled from here on; new connections have another route.
        let valve = way.stand_still();
        case.create(&job("other", &small, json!({}))).await?;
        let done = case
            .until(kind::IMAGE_PULL_JOB, "other", |job| {
                job["status"]["succeeded"] == 1
            })
            .await;
        drop(valve);
        done.map(drop)
    })
    .await
}

/// Secrets are for the tag in their owner's job, and for no other tag of the same image.
pub(crate) async fn secrets_of_anothers_tag_are_not_given(case: &Case) -> Result<()> {
    let [image, other] = case.images("private", ["v1", "v2"]).await?;
    let repository = image.rsplit_once(':').unwrap_or_default().0.to_owned();
    trust::create_pull_secret(case, "of-the-victim").await?;
    // The entry stays in the NodeImage, so that the daemon may request secrets again and again.
    let stays = json!({"completionPolicy": {"type": "Never"}});
    attack_by_tenant(case, async |tenant| {
        let mut own = stays.clone();
        own["pullSecrets"] = json!([trust::PULL_SECRET]);
        case.create(&job("own", &image, own)).await?;
        tenant.create(&job("others", &other, stays)).await?;
        for image in [&image, &other] {
            pulls::until_said(case, 1, image, |said| said.completion_time.is_some()).await?;
        }
        let given = trust::given_to(case, "node-1", &repository, "v1").await?;
        ensure!(
            given.len() == 1,
            "{} credentials for the owner's own tag",
            given.len()
        );
        let given = trust::given_to(case, "node-1", &repository, "v2").await?;
        ensure!(
            given.is_empty(),
            "the victim's credentials are given for a tag of the tenant: {given:?}"
        );
        Ok(())
    })
    .await
}

/// How many images of the tenant the NodeImage of the node names.
async fn filled_by_tenant(case: &Case) -> Result<usize> {
    let node = pulls::until_node(case, 1, |_| true).await?;
    Ok(node
        .spec
        .images
        .keys()
        .filter(|name| name.contains("none/x"))
        .count())
}

/// As many images as a NodeImage can name, from one namespace: those of another namespace still
/// fit.
pub(crate) async fn one_namespace_does_not_fill_a_node(case: &Case) -> Result<()> {
    const IMAGES: usize = 260;
    const MOST: usize = 256;
    let image = case.image("v1").await?;
    attack_by_tenant(case, async |tenant| {
        let ending =
            json!({"completionPolicy": {"type": "Never"}, "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 1}});
        for number in 0..IMAGES {
            tenant.create(&job(&format!("fill{number}"), &format!("none/x{number}:1"), ending.clone())).await?;
        }
        // The NodeImage is full now.
        let (mut filled, mut rests) = (filled_by_tenant(case).await?, 0);
        while rests < 5 || filled == 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = filled_by_tenant(case).await?;
            rests = if now == filled { rests + 1 } else { 0 };
            filled = now;
        }
        case.create(&job("other", &image, json!({}))).await?;
        case.until(kind::IMAGE_PULL_JOB, "other", |job| job["status"]["succeeded"] == 1).await?;
        println!("one namespace has {filled} images of node-1");
        ensure!(filled < MOST, "one namespace has {filled} of {MOST} images");
        Ok(())
    })
    .await
}
