//! Category `takeover`: the chapter "Before" of TAKEOVER.md as rules.

use berth_api::names::GROUP;
use berth_workload::objects::resource::{
    CLONE_SETS, NODES, POD_UNAVAILABLE_BUDGETS, PODS, Resource, SIDECAR_SETS, STATEFUL_SETS,
};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use serde_json::Value;

use super::context::{Context, DEFINITIONS, full_name, named, unread};
use super::outcome::{Category, Found, Outcome, Rule, count, some_of, warn_if_any};
use crate::objects::{items, name, namespace, text};

const POLICIES: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
)
.cluster_scoped();
/// The policy that refuses evictions during a takeover, as TAKEOVER.md names it.
const NO_EVICTIONS: &str = "no-evictions-during-takeover";
/// The namespace that Berth writes no pods in by default.
const PROTECTED: &str = "kube-system";
/// The annotation of pods with sidecars.
const SIDECARS: &str = "/metadata/annotations/kruise.io~1sidecarset-hash";
const APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
/// Kinds that Berth has not, and that do nothing by themselves.
const HARMLESS: [&str; 1] = ["nodepodprobes.apps.kruise.io"];

/// The state of the cluster before a takeover.
pub(super) static CATEGORY: Category = Category {
    name: "takeover",
    rules: &[
        Rule::new("kinds", |c| Box::pin(kinds(c))),
        Rule::new("pull-policies", |c| Box::pin(pull_policies(c))),
        Rule::new("protected-clonesets", |c| Box::pin(protected(c))),
        Rule::new("protected-sidecars", |c| Box::pin(protected_sidecars(c))),
        Rule::new("sidecarsets", |c| Box::pin(sidecar_sets(c))),
        Rule::new("drains", |c| Box::pin(drains(c))),
        Rule::new("images", |c| Box::pin(images(c))),
    ],
};

async fn kinds(context: &Context<'_>) -> Found {
    let definitions = context.list(DEFINITIONS).await?;
    let session = context.session;
    let mut found = Vec::new();
    for kind in unknown_kinds(&definitions) {
        let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &kind);
        let page = session
            .within(api.list(&ListParams::default().limit(500)))
            .await;
        let page = page.map_err(|error| unread(&error))?;
        let page = page.map_err(|error| unread(&error.into()))?;
        if let Some(first) = page.items.first() {
            let first = first.metadata.name.as_deref().unwrap_or_default();
            found.push(format!(
                "{}: {}, such as {first}",
                kind.kind,
                page.items.len()
            ));
        }
    }
    Ok(if found.is_empty() {
        Outcome::Ok("no object is of a kind that Berth has not".to_owned())
    } else {
        Outcome::Fail(
            "objects are of kinds that Berth has not: they do nothing while Berth runs".to_owned(),
            found.join("\n"),
        )
    })
}

/// The kinds of OpenKruise that Berth has not.
pub(super) fn unknown_kinds(definitions: &[Value]) -> Vec<ApiResource> {
    let unknown = definitions.iter().filter(|one| {
        let group = text(one, "/spec/group");
        let is_of_kruise = group == GROUP || group.ends_with(".kruise.io");
        let known = |kind: &berth_api::kinds::Kind| kind.crd() == name(one);
        is_of_kruise && !berth_api::kinds::KINDS.iter().any(known) && !HARMLESS.contains(&name(one))
    });
    let unknown = unknown.filter_map(|one| {
        let version = items(one, "/spec/versions").find(|version| version["served"] == true)?;
        let (group, version) = (text(one, "/spec/group"), text(version, "/name"));
        Some(ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: text(one, "/spec/names/kind").to_owned(),
            plural: text(one, "/spec/names/plural").to_owned(),
        })
    });
    unknown.collect()
}

async fn pull_policies(context: &Context<'_>) -> Found {
    let mut lacking = Vec::new();
    for (kind, noun) in [(CLONE_SETS, "CloneSet"), (STATEFUL_SETS, "StatefulSet")] {
        let all = context.list(kind).await?;
        let lacks = all.iter().filter(|one| lacks_pull_policy(one));
        lacking.extend(lacks.map(|one| format!("{noun} {}", full_name(one))));
    }
    Ok(warn_if_any(
        &lacking,
        "manifests applied by kubectl say imagePullPolicy for each container",
        "manifests applied by kubectl lack imagePullPolicy",
        "write it as `kubectl get clonesets,statefulsets.apps.kruise.io -o yaml` shows it; otherwise the first change after a way back replaces pods",
    ))
}

/// Whether the manifest that kubectl applied lacks the pull policy of a container.
pub(super) fn lacks_pull_policy(object: &Value) -> bool {
    let applied: Value = serde_json::from_str(text(object, APPLIED)).unwrap_or_default();
    let lists = ["containers", "initContainers"];
    lists.iter().any(|list| {
        items(&applied, &format!("/spec/template/spec/{list}"))
            .any(|container| text(container, "/imagePullPolicy").is_empty())
    })
}

async fn protected(context: &Context<'_>) -> Found {
    let all = context.list(CLONE_SETS).await?;
    let found = all.iter().filter(|one| namespace(one) == PROTECTED);
    Ok(warn_if_any(
        &found.map(name).collect::<Vec<_>>(),
        "no CloneSet is in kube-system",
        "CloneSets of kube-system would get no pods from Berth",
        "set controller.protectedNamespaces without kube-system, or move them",
    ))
}

async fn protected_sidecars(context: &Context<'_>) -> Found {
    let pods = context.list_in(PODS, PROTECTED).await?;
    let found = pods.iter().filter(|pod| !text(pod, SIDECARS).is_empty());
    Ok(warn_if_any(
        &found.map(name).collect::<Vec<_>>(),
        "no pod of kube-system has sidecars",
        "pods of kube-system have sidecars; new ones get none from Berth",
        "set controller.protectedNamespaces without kube-system",
    ))
}

async fn sidecar_sets(context: &Context<'_>) -> Found {
    let all = context.list(SIDECAR_SETS).await?;
    Ok(match all.len() {
        0 => Outcome::Ok("there are no SidecarSets".to_owned()),
        some => Outcome::Warn(
            format!("{} there: pods created between the steps 1 and 4 get no sidecars", count(some, "SidecarSet")),
            "begin no rollout meanwhile, have all commands ready, and look for missed pods in step 4".to_owned(),
        ),
    })
}

async fn drains(context: &Context<'_>) -> Found {
    let nodes = context.list(NODES).await?;
    let budgets = context.list(POD_UNAVAILABLE_BUDGETS).await?;
    let policies = context.list(POLICIES).await?;
    let is_refused = named(&policies, NO_EVICTIONS).is_some();
    Ok(judge_drains(&nodes, budgets.len(), is_refused))
}

/// Judges running drains, given the number of budgets and whether a policy refuses evictions.
pub(super) fn judge_drains(nodes: &[Value], budgets: usize, is_refused: bool) -> Outcome {
    let is_cordoned = |node: &&Value| node["spec"]["unschedulable"] == true;
    let cordoned: Vec<_> = nodes.iter().filter(is_cordoned).map(name).collect();
    if is_refused {
        return Outcome::Ok(format!("policy {NO_EVICTIONS} refuses evictions"));
    }
    if budgets == 0 {
        return Outcome::Ok(
            "there are no PodUnavailableBudgets that a drain could ignore".to_owned(),
        );
    }
    let refuse = format!("or refuse evictions for that time: policy {NO_EVICTIONS} of TAKEOVER.md");
    let unheld = format!(
        "{} not enforced between the steps 1 and 5",
        count(budgets, "PodUnavailableBudget")
    );
    if cordoned.is_empty() {
        return Outcome::Warn(unheld, format!("begin no drain meanwhile, {refuse}"));
    }
    Outcome::Fail(
        format!("{unheld}, and nodes are cordoned: {}", some_of(&cordoned)),
        format!("end kubectl drain and all tools that take nodes away, {refuse}"),
    )
}

async fn images(context: &Context<'_>) -> Found {
    let nodes = context.list(NODES).await?;
    Ok(judge_images(&nodes))
}

/// Judges whether a node has the images of Berth, by the images that kubelets report.
pub(super) fn judge_images(nodes: &[Value]) -> Outcome {
    let has = |node: &Value, program: &str| {
        let mut names = items(node, "/status/images").flat_map(|image| items(image, "/names"));
        names.any(|name| name.as_str().is_some_and(|name| name.contains(program)))
    };
    let programs = ["/berth-controller", "/berth-daemon"];
    let ready = nodes
        .iter()
        .filter(|node| programs.iter().all(|program| has(node, program)))
        .count();
    if ready > 0 {
        return Outcome::Ok(format!(
            "{ready} of {} nodes have Berth's images",
            nodes.len()
        ));
    }
    Outcome::Warn(
        "no node reports Berth's images".to_owned(),
        "pull them ahead, or be sure that the registry answers; kubelets report only their 50 largest images".to_owned(),
    )
}
