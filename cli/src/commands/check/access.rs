//! Category `rights`: whether the user may install Berth.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

use super::context::{Context, Unread, unread};
use super::outcome::{Category, Found, Outcome, Rule, some_of};

/// The rights that helm needs for Berth's chart.
pub(super) static CATEGORY: Category = Category {
    name: "rights",
    rules: &[
        Rule::new("cluster-rights", |c| Box::pin(cluster(c))),
        Rule::new("namespace-rights", |c| Box::pin(namespaced(c))),
        Rule::new("escalation", |c| Box::pin(escalation(c))),
    ],
};
/// The cluster-scoped kinds of the chart: group and plural.
const CLUSTER: [(&str, &str); 9] = [
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
    ),
];
/// The namespaced kinds of the chart, and the Secrets in which helm keeps its release.
const NAMESPACED: [(&str, &str); 9] = [
    ("", "configmaps"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
];

async fn cluster(context: &Context<'_>) -> Found {
    Ok(judge_rights(&denied(context, &CLUSTER, "").await?, ""))
}

async fn namespaced(context: &Context<'_>) -> Found {
    let namespace = context.namespace();
    let denied = denied(context, &NAMESPACED, namespace).await?;
    Ok(judge_rights(&denied, namespace))
}

async fn denied(
    context: &Context<'_>,
    kinds: &[(&str, &str)],
    namespace: &str,
) -> Result<Vec<String>, Unread> {
    let mut denied = Vec::new();
    for (group, plural) in kinds {
        if !may(context, "create", (group, plural), namespace).await? {
            let group = if group.is_empty() {
                ""
            } else {
                &format!(".{group}")
            };
            denied.push(format!("{plural}{group}"));
        }
    }
    Ok(denied)
}

pub(super) fn judge_rights(denied: &[String], namespace: &str) -> Outcome {
    let place = match namespace {
        "" => "in the cluster".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    if denied.is_empty() {
        return Outcome::Ok(format!("you may create the chart's objects {place}"));
    }
    Outcome::Fail(
        format!("you may not create {place}: {}", some_of(denied)),
        "install Berth as a user with ClusterRole cluster-admin".to_owned(),
    )
}

async fn escalation(context: &Context<'_>) -> Found {
    let roles = ("rbac.authorization.k8s.io", "clusterroles");
    let may_escalate = may(context, "escalate", roles, "").await?;
    let may_all = may(context, "*", ("*", "*"), "").await?;
    Ok(if may_escalate || may_all {
        Outcome::Ok("you may give Berth's accounts their rights".to_owned())
    } else {
        Outcome::Warn(
            "you may give Berth's accounts only rights that you have yourself".to_owned(),
            "the apiserver refuses other rights: install Berth as a user with ClusterRole cluster-admin".to_owned(),
        )
    })
}

async fn may(
    context: &Context<'_>,
    verb: &str,
    (group, plural): (&str, &str),
    namespace: &str,
) -> Result<bool, Unread> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(plural.to_owned()),
                verb: Some(verb.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let session = context.session;
    let reviews = Api::<SelfSubjectAccessReview>::all(session.client.clone());
    let parameters = PostParams::default();
    let answer = session.within(reviews.create(&parameters, &review)).await;
    let answer = answer.map_err(|error| unread(&error))?;
    let answer = answer.map_err(|error| unread(&error.into()))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
