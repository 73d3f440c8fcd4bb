//! Which changes of nodes trigger reconciles of DaemonSets, and how many.

use std::time::Duration;

use anyhow::Result;
use berth_e2e::objects::{self, kind};
use berth_simnode::nodes;
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::life::{REST, daemon_set, is_done};
use super::{Options, Wake};
use crate::phases::{NAMESPACE, PATIENCE, Program, Stage};

const NODE: &str = "v1/Node";

/// Counts reconciles after changes that concern no DaemonSet, and after changes that concern one of
/// many.
pub(super) async fn measure(
    stage: &Stage,
    program: &Program,
    controller: &str,
    options: &Options,
) -> Result<Vec<Wake>> {
    let (client, count) = (&stage.client, options.nodes + options.joining());
    let mut wakes = Wakes {
        program,
        controller,
        all: Vec::new(),
    };
    for number in 0..options.sets {
        let set = daemon_set(
            &name(number),
            &json!({"nodeSelector": {name(number): "true"}}),
        );
        objects::create(client, NAMESPACE, &set).await?;
    }
    for number in 0..options.sets {
        let is_seen = |set: &Value| is_done(set, 0);
        objects::until(
            client,
            NAMESPACE,
            kind::DAEMON_SET,
            &name(number),
            PATIENCE,
            is_seen,
        )
        .await?;
    }
    sleep(REST).await;
    let time = Duration::from_secs(options.heartbeats);
    let beats = async {
        tokio::select! {
            () = nodes::beat(client, count, time) => {}
            () = nodes::report(client, count, time) => {}
            () = sleep(time) => {}
        }
        Ok(())
    };
    wakes
        .after(
            format!("{count} nodes renew their leases and report their status"),
            beats,
        )
        .await?;
    let label = |key: &str| json!({"metadata": {"labels": {key: "true"}}});
    let (first, second) = (nodes::name(0), nodes::name(1));
    let change = async {
        objects::patch(client, "", NODE, &first, &label("nobodys"))
            .await
            .map(drop)
    };
    wakes
        .after(
            "a node gets a label that no DaemonSet asks for".to_owned(),
            change,
        )
        .await?;
    // With a taint that keeps pods away the decision is another one, and no new pod triggers
    // further reconciles.
    let taint = json!({"key": "k", "effect": "NoExecute"});
    let change = async {
        objects::patch(
            client,
            "",
            NODE,
            &first,
            &json!({"spec": {"taints": [taint]}}),
        )
        .await
        .map(drop)
    };
    wakes
        .after(
            "a taint ends the pod of the DaemonSet that has one there".to_owned(),
            change,
        )
        .await?;
    let change = async {
        objects::patch(client, "", NODE, &second, &label(&name(0))).await?;
        let is_there = |set: &Value| is_done(set, 1);
        objects::until(
            client,
            NAMESPACE,
            kind::DAEMON_SET,
            &name(0),
            PATIENCE,
            is_there,
        )
        .await
        .map(drop)
    };
    wakes
        .after(
            "a node gets the label that one asks for, and its pod".to_owned(),
            change,
        )
        .await?;
    // This needs no write and changes no status, so each reconcile is triggered by the node.
    let not_ready = json!([{"type": "Ready", "status": "False"}]);
    let change = set_conditions(client, &second, &not_ready);
    wakes
        .after(
            "a node with the pods of two stops being Ready".to_owned(),
            change,
        )
        .await?;
    let join = async { nodes::make(client, count..count + 1, &berth_simnode::now()).await };
    wakes
        .after(
            "a node joins that one DaemonSet has a pod for".to_owned(),
            join,
        )
        .await?;
    Ok(wakes.all)
}

fn name(number: usize) -> String {
    format!("set-{number}")
}

/// Writes the conditions as its kubelet, or kube-controller-manager, would.
async fn set_conditions(client: &Client, node: &str, conditions: &Value) -> Result<()> {
    let path = format!("/api/v1/nodes/{node}/status");
    let request =
        Request::patch(path).header("content-type", "application/strategic-merge-patch+json");
    let body = json!({"status": {"conditions": conditions}})
        .to_string()
        .into_bytes();
    client.request::<Value>(request.body(body)?).await?;
    Ok(())
}

struct Wakes<'a> {
    program: &'a Program,
    controller: &'a str,
    all: Vec<Wake>,
}

impl Wakes<'_> {
    /// Counts the reconciles that follow a change.
    async fn after(
        &mut self,
        change: String,
        done: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let before = self.program.reconciles_of(self.controller).await?;
        done.await?;
        sleep(REST).await;
        let reconciles = self
            .program
            .reconciles_of(self.controller)
            .await?
            .saturating_sub(before);
        println!("  {reconciles:>4} looks: {change}");
        self.all.push(Wake { change, reconciles });
        Ok(())
    }
}
