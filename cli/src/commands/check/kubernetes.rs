//! Category `kubernetes`: the apiserver and the kubelets.

use berth_workload::objects::resource::{NODES, PODS};
use serde_json::Value;

use super::context::{Context, Unread, unread};
use super::outcome::{Category, Found, Outcome, Rule, some_of};
use crate::exit::is_of_connection;
use crate::objects::{name, number, text};

/// The oldest supported minor version: kubelets report `observedGeneration` of pods since then.
const OLDEST: u32 = 34;
const SUPPORTED: &str = "Berth needs Kubernetes 1.34 or later: docs/supported-versions.md";

/// The apiserver and the kubelets of a cluster with Berth.
pub(super) static CATEGORY: Category = Category {
    name: "kubernetes",
    rules: &[ANSWERS, Rule::new("kubelets", |c| Box::pin(kubelets(c)))],
};
/// The same without pods of Berth.
pub(super) static VERSIONS: Category = Category {
    name: "kubernetes",
    rules: &[
        ANSWERS,
        Rule::new("kubelets", |c| Box::pin(kubelet_versions(c))),
    ],
};
const ANSWERS: Rule = Rule::new("apiserver", |c| Box::pin(apiserver(c))).fatal();

async fn apiserver(context: &Context<'_>) -> Found {
    let session = context.session;
    let version = session.within(session.client.apiserver_version()).await;
    let version = version.and_then(|version| version.map_err(anyhow::Error::from));
    let named = |error: anyhow::Error| match is_of_connection(&error) {
        true => error.context(format!(
            "the apiserver at {} does not answer",
            session.server
        )),
        false => error,
    };
    match version.map_err(|error| unread(&named(error))) {
        Ok(version) => Ok(judge_apiserver(&version.git_version)),
        Err(Unread::Failed(sentence)) => Ok(Outcome::Fail(
            sentence,
            "other checks are left out".to_owned(),
        )),
        Err(forbidden) => Err(forbidden),
    }
}

async fn kubelets(context: &Context<'_>) -> Found {
    let nodes = context.list(NODES).await?;
    match context.list_in(PODS, context.namespace()).await {
        Ok(pods) => Ok(judge_kubelets(&nodes, &pods)),
        // Without pods, only the versions can be judged.
        Err(unread) => match judge_kubelets(&nodes, &[]) {
            Outcome::Ok(_) => Err(unread),
            fault => Ok(fault),
        },
    }
}

async fn kubelet_versions(context: &Context<'_>) -> Found {
    Ok(judge_kubelets(&context.list(NODES).await?, &[]))
}

pub(super) fn judge_apiserver(version: &str) -> Outcome {
    match minor(version) {
        Some(minor) if minor < OLDEST => Outcome::Fail(
            format!("the apiserver has version {version}"),
            SUPPORTED.to_owned(),
        ),
        Some(_) => Outcome::Ok(format!("apiserver answers, {version}")),
        None => Outcome::Warn(
            format!("apiserver answers, with version {version:?}, which cannot be read"),
            SUPPORTED.to_owned(),
        ),
    }
}

fn version(node: &Value) -> &str {
    text(node, "/status/nodeInfo/kubeletVersion")
}

/// Judges kubelets by their versions, and by what they report of these pods.
pub(super) fn judge_kubelets(nodes: &[Value], pods: &[Value]) -> Outcome {
    let is_old = |node: &&Value| minor(version(node)).is_some_and(|minor| minor < OLDEST);
    let old: Vec<_> = nodes
        .iter()
        .filter(is_old)
        .map(|node| format!("{} ({})", name(node), version(node)))
        .collect();
    if !old.is_empty() {
        return Outcome::Fail(
            format!("kubelets are older than 1.34: {}", some_of(&old)),
            SUPPORTED.to_owned(),
        );
    }
    let is_silent = |node: &&Value| {
        let of_node = |pod: &&Value| {
            text(pod, "/spec/nodeName") == name(node) && text(pod, "/status/phase") == "Running"
        };
        let mut running = pods.iter().filter(of_node).peekable();
        running.peek().is_some()
            && running.all(|pod| number(pod, "/status/observedGeneration") == 0)
    };
    let silent: Vec<_> = nodes.iter().filter(is_silent).map(name).collect();
    if silent.is_empty() {
        return Outcome::Ok(match nodes.len() {
            1 => "the kubelet of the only node reports observedGeneration".to_owned(),
            all => format!("kubelets of all {all} nodes report observedGeneration"),
        });
    }
    Outcome::Fail(
        format!(
            "kubelets do not report observedGeneration of pods: {}",
            some_of(&silent)
        ),
        "updates in place stay unproven there: do not turn off the kubelet's feature gate PodObservedGenerationTracking".to_owned(),
    )
}

/// The minor version of `v1.34.2+k3s1`; large for a later major version.
pub(super) fn minor(version: &str) -> Option<u32> {
    let mut parts = version.strip_prefix('v')?.split(['.', '-', '+']);
    let major: u32 = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    Some(match major {
        0 => 0,
        1 => minor,
        _ => u32::MAX,
    })
}
