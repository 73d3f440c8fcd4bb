//! Category `namespace`: whether the controller's namespace admits Berth's pods.

use berth_api::name::Name;
use berth_workload::objects::resource::{NAMESPACES, NODES, Resource};
use serde_json::Value;

use super::context::{Context, named, unread};
use super::outcome::{Category, Found, Outcome, Rule};
use crate::exit::{WrongUsage, is_not_found};
use crate::objects::{items, name, text};
use crate::session::Session;

const QUOTAS: Resource = Resource::new("", "v1", "resourcequotas", "ResourceQuota");
const ENFORCE: &str = "/metadata/labels/pod-security.kubernetes.io~1enforce";
/// The pods of the controller.
const REPLICAS: usize = 2;

/// The namespace.
pub(super) static CATEGORY: Category = Category {
    name: "namespace",
    rules: &[
        Rule::new("pod-security", |c| Box::pin(pod_security(c))),
        Rule::new("quotas", |c| Box::pin(quotas(c))),
    ],
};

/// Checks that the namespace of `--namespace` exists, as far as the user may read it.
///
/// # Errors
/// It does not exist.
pub(crate) async fn must_exist(session: &Session) -> anyhow::Result<()> {
    let Some(namespace) = &session.global.namespace else {
        return Ok(());
    };
    let name = Name::parse(namespace).map_err(|error| WrongUsage(error.to_string()))?;
    let all = session.api_in(NAMESPACES, "");
    match session.within(all.get(name.as_str())).await {
        Ok(Err(error)) if is_not_found(&error) => {
            anyhow::bail!("there is no namespace {namespace:?}; see `kubectl get namespaces`")
        }
        // Other failures meet each later request, too.
        _ => Ok(()),
    }
}

async fn pod_security(context: &Context<'_>) -> Found {
    let all = context.list(NAMESPACES).await?;
    let wanted = context.namespace();
    Ok(judge_pod_security(named(&all, wanted), wanted))
}

/// Judges the level of Pod Security. The daemon uses host paths as root.
pub(super) fn judge_pod_security(namespace: Option<&Value>, wanted: &str) -> Outcome {
    let label = format!(
        "kubectl label --overwrite namespace {wanted} pod-security.kubernetes.io/enforce=privileged"
    );
    let Some(namespace) = namespace else {
        return Outcome::Ok(format!(
            "namespace {wanted} does not exist yet; helm makes it with --create-namespace"
        ));
    };
    if !text(namespace, "/metadata/deletionTimestamp").is_empty() {
        return Outcome::Fail(
            format!("namespace {wanted} is being deleted"),
            "wait until it is gone".to_owned(),
        );
    }
    match text(namespace, ENFORCE) {
        "" => Outcome::Ok(format!("namespace {wanted} has no Pod Security label")),
        "privileged" => Outcome::Ok(format!("namespace {wanted} admits privileged pods")),
        level => Outcome::Fail(
            format!(
                "namespace {wanted} enforces Pod Security level {level:?}, which refuses the daemon's host paths"
            ),
            label,
        ),
    }
}

async fn quotas(context: &Context<'_>) -> Found {
    let quotas = context.list_in(QUOTAS, context.namespace()).await?;
    let nodes = context.list(NODES).await?;
    let session = context.session;
    let version = session.within(session.client.apiserver_version()).await;
    let version = version
        .and_then(|version| version.map_err(anyhow::Error::from))
        .map_err(|error| unread(&error))?;
    Ok(judge_quotas(&quotas, nodes.len(), &version.git_version))
}

/// Judges quotas for a cluster of this many nodes.
pub(super) fn judge_quotas(quotas: &[Value], nodes: usize, version: &str) -> Outcome {
    let has_classes = |quota: &Value| {
        items(quota, "/spec/scopeSelector/matchExpressions")
            .any(|one| one["scopeName"] == "PriorityClass")
    };
    if version.contains("-gke") && !quotas.iter().any(has_classes) {
        return Outcome::Warn(
            "GKE admits pods of system-cluster-critical and system-node-critical only with a ResourceQuota for these classes".to_owned(),
            "make the ResourceQuota, or set controller.priorityClassName and daemon.priorityClassName: charts/berth/README.md".to_owned(),
        );
    }
    let wanted = nodes + REPLICAS;
    let mut lines = Vec::new();
    for quota in quotas {
        let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
        for (resource, most) in hard.into_iter().flatten() {
            let most = most.as_str().unwrap_or_default();
            let of_pods = ["pods", "count/pods"].contains(&resource.as_str());
            if of_pods && most.parse().is_ok_and(|most: usize| most < wanted) {
                lines.push(format!(
                    "{}: spec.hard.{resource} is {most}; Berth needs {wanted} pods",
                    name(quota)
                ));
            } else if ["cpu", "memory", "requests.", "limits."]
                .iter()
                .any(|one| resource.starts_with(one))
            {
                lines.push(format!(
                    "{}: spec.hard.{resource} is {most}; compare controller.resources and daemon.resources",
                    name(quota)
                ));
            }
        }
    }
    if lines.is_empty() {
        return Outcome::Ok("no ResourceQuota limits Berth's pods".to_owned());
    }
    Outcome::Warn(
        "ResourceQuotas may refuse Berth's pods".to_owned(),
        lines.join("\n"),
    )
}
