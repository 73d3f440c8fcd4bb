//! CloneSets of a tenant that cost more than their size.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::json;

use super::{
    attack_by_tenant, clone_set_of_another_user_grows, everybody_can_list, request_of_another_user,
};
use crate::world::Case;

/// The text of a CloneSet without pods, with `unknown` in a field of its template that no schema
/// knows.
fn clone_set_with(name: &str, unknown: &str) -> String {
    let mut set = objects::clone_set(name, 0, "web:v1", &json!({}));
    set["spec"]["template"]["spec"]["unknown"] = "UNKNOWN".into();
    set.to_string().replace(r#""UNKNOWN""#, unknown)
}

/// Nested deeper than parsers allow: the CloneSets of all users can still be listed in each
/// version.
pub(crate) async fn a_deep_clone_set_breaks_no_list(case: &Case) -> Result<()> {
    attack_by_tenant(case, async |tenant| {
        for depth in [200, 2000] {
            let deep = clone_set_with(
                &format!("deep-{depth}"),
                &format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
            );
            let created = tenant.create_clone_set(deep).await;
            println!(
                "a CloneSet nested {depth} deep: {:?}",
                created.as_ref().map_err(ToString::to_string)
            );
            everybody_can_list(case)
                .await
                .with_context(|| format!("after a CloneSet nested {depth} deep"))?;
        }
        request_of_another_user(case).await
    })
    .await
}

/// 1.4 MB of unknown fields, which take a hundred times as much as a parsed tree. It is refused, or
/// reported as unreadable.
pub(crate) async fn huge_clone_set_blocks_no_other_user(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    attack_by_tenant(case, async |tenant| {
        let fat = format!("[{}]", vec![r#"{"":0}"#; 195_000].join(","));
        let created = tenant.create_clone_set(clone_set_with("fat", &fat)).await;
        println!(
            "a CloneSet of 1.4 MB: {:?}",
            created.as_ref().map_err(ToString::to_string)
        );
        clone_set_of_another_user_grows(case, "web").await?;
        everybody_can_list(case).await?;
        match created {
            Err(error) => {
                let says = error.to_string();
                ensure!(
                    says.contains("spec") && says.contains("limit"),
                    "the refusal names no field and limit: {says}"
                );
            }
            Ok(()) => {
                let blocked = |set: &serde_json::Value| {
                    let conditions = set["status"]["conditions"].as_array();
                    conditions.is_some_and(|all| {
                        all.iter()
                            .any(|c| c["type"] == "Blocked" && c["reason"] == "Unreadable")
                    })
                };
                let (admin, patience) = (case.client(), crate::world::PATIENCE);
                objects::until(
                    admin,
                    &tenant.namespace,
                    kind::CLONE_SET,
                    "fat",
                    patience,
                    blocked,
                )
                .await?;
            }
        }
        Ok(())
    })
    .await
}

/// Each kept revision costs memory and space in etcd, so their number has a maximum.
pub(crate) async fn a_history_without_end_is_refused(case: &Case) -> Result<()> {
    attack_by_tenant(case, async |tenant| {
        let mut set = objects::clone_set("history", 0, "web:v1", &json!({}));
        set["spec"]["revisionHistoryLimit"] = i32::MAX.into();
        match tenant.create(&set).await {
            Ok(_) => anyhow::bail!("revisionHistoryLimit {} was accepted", i32::MAX),
            Err(error) => ensure!(
                format!("{error:#}").contains("revisionHistoryLimit"),
                "{error:#}"
            ),
        }
        Ok(())
    })
    .await
}
