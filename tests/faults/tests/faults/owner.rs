//! The owner of lifecycle hooks, which lets pods into service, into an update and out of it, and
//! out of service.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_api::names::{label, lifecycle_state};
use berth_e2e::objects::{self, kind};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::PATIENCE;

/// The label that holds a pod in its state, and lets it back into service.
pub(crate) const HOOK: &str = "berth.test/hold";
/// The label that lets a new pod into service.
pub(crate) const READY: &str = "berth.test/ready";

/// The owner's reaction to a pod.
struct Answer {
    label: &'static str,
    /// Null removes the label.
    value: Value,
    /// The pod needs no further change.
    is_last: bool,
}

/// Removes the label from each pod that waits for its update, and restores it on each updated pod,
/// until so many were updated.
pub(crate) async fn let_all_through(client: &Client, namespace: &str, pods: usize) -> Result<()> {
    until((client, namespace), pods, |state, labels| match state {
        lifecycle_state::PREPARING_UPDATE if labels[HOOK].is_string() => Some(Answer {
            label: HOOK,
            value: Value::Null,
            is_last: false,
        }),
        lifecycle_state::UPDATED if labels[HOOK].is_null() => Some(Answer {
            label: HOOK,
            value: json!("true"),
            is_last: true,
        }),
        _ => None,
    })
    .await
}

/// Lets this many new pods into service.
pub(crate) async fn let_in(client: &Client, namespace: &str, pods: usize) -> Result<()> {
    until((client, namespace), pods, |state, labels| {
        let waits = state == lifecycle_state::PREPARING_NORMAL && labels[READY].is_null();
        waits.then(|| Answer {
            label: READY,
            value: json!("true"),
            is_last: true,
        })
    })
    .await
}

/// Lets this many pods be deleted.
pub(crate) async fn let_go(client: &Client, namespace: &str, pods: usize) -> Result<()> {
    until((client, namespace), pods, |state, labels| {
        let waits = state == lifecycle_state::PREPARING_DELETE && labels[HOOK].is_string();
        waits.then_some(Answer {
            label: HOOK,
            value: Value::Null,
            is_last: true,
        })
    })
    .await
}

/// Changes every pod of the namespace as its state and labels require, until so many pods need no
/// further change.
async fn until(
    (client, namespace): (&Client, &str),
    pods: usize,
    answer: impl Fn(&str, &Value) -> Option<Answer>,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut through = 0;
    while through < pods {
        ensure!(
            Instant::now() < deadline,
            "only {through} of {pods} pods came through their hooks"
        );
        for pod in objects::list(client, namespace, kind::POD, "").await? {
            let labels = &pod["metadata"]["labels"];
            let state = labels[label::LIFECYCLE_STATE].as_str().unwrap_or_default();
            let Some(Answer {
                label,
                value,
                is_last,
            }) = answer(state, labels)
            else {
                continue;
            };
            through += usize::from(is_last);
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let patch = json!({"metadata": {"labels": {label: value}}});
            objects::patch(client, namespace, kind::POD, name, &patch).await?;
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
