//! Categories `leftovers` and `openkruise`: what there is of OpenKruise.

use berth_api::kinds::KINDS;
use berth_controller::settings::gates;
use berth_workload::feature_gates::ELSEWHERE;
use berth_workload::objects::resource::DEPLOYMENTS;
use serde_json::Value;

use super::context::{
    Context, DEFINITIONS, DEPLOYMENT, MUTATING, VALIDATING, full_name, is_of_berth, named,
};
use super::outcome::{Category, Found, Outcome, Rule, some_of, warn_if_any};
use crate::objects::{items, name, text};

const CHAPTER: &str = "charts/berth/TAKEOVER.md";
/// OpenKruise's release of which the takeover was tried.
const TRIED: &str = "1.9.0";

/// What a removed OpenKruise left.
pub(super) static LEFTOVERS: Category = Category {
    name: "leftovers",
    rules: &[
        Rule::new("controller", |c| Box::pin(no_manager(c))),
        Rule::new("definitions", |c| Box::pin(no_definitions(c))),
        Rule::new("webhooks", |c| Box::pin(no_webhooks(c))),
    ],
};
/// OpenKruise itself.
pub(super) static MANAGER: Category = Category {
    name: "openkruise",
    rules: &[
        Rule::new("manager", |c| Box::pin(manager(c))),
        Rule::new("helm", |c| Box::pin(helm(c))),
        Rule::new("gates", |c| Box::pin(feature_gates(c))),
    ],
};

async fn no_manager(context: &Context<'_>) -> Found {
    let all = context.list(DEPLOYMENTS).await?;
    Ok(judge_no_manager(&all))
}

pub(super) fn judge_no_manager(deployments: &[Value]) -> Outcome {
    let Some(found) = named(deployments, DEPLOYMENT) else {
        return Outcome::Ok("no controller of Berth or OpenKruise is there".to_owned());
    };
    let text = format!("Deployment {} has image {}", full_name(found), image(found));
    if is_of_berth(found) {
        Outcome::Warn(
            format!("Berth is installed already: {text}"),
            "kubectl berth check".to_owned(),
        )
    } else {
        Outcome::Fail(
            format!("OpenKruise is installed: {text}"),
            format!("kubectl berth check --takeover, and then {CHAPTER}"),
        )
    }
}

async fn no_definitions(context: &Context<'_>) -> Found {
    let all = context.list(DEFINITIONS).await?;
    Ok(judge_no_definitions(&all))
}

pub(super) fn judge_no_definitions(definitions: &[Value]) -> Outcome {
    let is_left = |one: &&Value| is_of_kruise(one) && !is_of_berth(one);
    let left: Vec<_> = definitions.iter().filter(is_left).map(name).collect();
    warn_if_any(
        &left,
        "no definition of OpenKruise is there",
        "definitions of OpenKruise are there",
        &format!("their objects stay: helm install needs --take-ownership ({CHAPTER}, step 3)"),
    )
}

async fn no_webhooks(context: &Context<'_>) -> Found {
    let (mutating, validating) = (
        context.list(MUTATING).await?,
        context.list(VALIDATING).await?,
    );
    let all: Vec<_> = mutating.iter().chain(&*validating).cloned().collect();
    Ok(judge_no_webhooks(&all))
}

pub(super) fn judge_no_webhooks(configurations: &[Value]) -> Outcome {
    let is_left = |one: &&Value| {
        let calls = |webhook: &Value| {
            text(webhook, "/clientConfig/service/name") == "kruise-webhook-service"
        };
        !is_of_berth(one) && items(one, "/webhooks").any(calls)
    };
    let left: Vec<_> = configurations.iter().filter(is_left).map(name).collect();
    if left.is_empty() {
        return Outcome::Ok("no webhook configuration of OpenKruise is there".to_owned());
    }
    Outcome::Fail(
        format!(
            "webhook configurations of OpenKruise are there: {}",
            some_of(&left)
        ),
        format!("without their manager they refuse all pods: delete them ({CHAPTER}, step 1)"),
    )
}

async fn manager(context: &Context<'_>) -> Found {
    let found = context.own(DEPLOYMENTS, DEPLOYMENT).await?;
    Ok(judge_manager(found.as_ref(), context.namespace()))
}

pub(super) fn judge_manager(deployment: Option<&Value>, namespace: &str) -> Outcome {
    let Some(found) = deployment else {
        return Outcome::Warn(
            format!("there is no Deployment {DEPLOYMENT} in namespace {namespace}"),
            "install Berth into the namespace of OpenKruise: name it with --berth-namespace"
                .to_owned(),
        );
    };
    if is_of_berth(found) {
        return Outcome::Warn(
            "Berth is installed already".to_owned(),
            "kubectl berth check".to_owned(),
        );
    }
    let image = image(found);
    if image.contains(TRIED) {
        return Outcome::Ok(format!("OpenKruise runs with image {image}"));
    }
    Outcome::Warn(
        format!("OpenKruise runs with image {image}; the takeover was tried from {TRIED} and HEAD"),
        CHAPTER.to_owned(),
    )
}

async fn helm(context: &Context<'_>) -> Found {
    let mut all = context.list(DEFINITIONS).await?.to_vec();
    all.retain(is_of_kruise);
    if let Ok(Some(manager)) = context.own(DEPLOYMENTS, DEPLOYMENT).await {
        all.push(manager);
    }
    Ok(judge_helm(&all))
}

/// Judges by the annotations that helm writes to the objects of a release.
pub(super) fn judge_helm(objects: &[Value]) -> Outcome {
    const ANNOTATION: &str = "/metadata/annotations/meta.helm.sh~1release-";
    let release = objects
        .iter()
        .filter(|one| !is_of_berth(one))
        .find_map(|one| {
            let name = text(one, &format!("{ANNOTATION}name"));
            let namespace = text(one, &format!("{ANNOTATION}namespace"));
            (!name.is_empty()).then_some((name, namespace))
        });
    match release {
        None => Outcome::Ok("helm has no release of OpenKruise".to_owned()),
        Some((name, namespace)) => Outcome::Warn(
            format!("helm has release {name} of OpenKruise in namespace {namespace}"),
            format!(
                "never run helm uninstall: all CloneSets and their pods would go; step 6 is: kubectl -n {namespace} delete secret -l owner=helm,name={name}"
            ),
        ),
    }
}

async fn feature_gates(context: &Context<'_>) -> Found {
    let found = context.own(DEPLOYMENTS, DEPLOYMENT).await?;
    let gates = found.as_ref().map(gates_of).unwrap_or_default();
    Ok(judge_gates(&gates))
}

/// The value of `--feature-gates` in a manager's Deployment.
fn gates_of(deployment: &Value) -> String {
    let containers = items(deployment, "/spec/template/spec/containers");
    let arguments = containers
        .flat_map(|container| items(container, "/args").chain(items(container, "/command")));
    let gates = arguments.filter_map(Value::as_str).filter_map(|argument| {
        argument
            .trim_start_matches('-')
            .strip_prefix("feature-gates=")
    });
    gates.collect::<Vec<_>>().join(",")
}

pub(super) fn judge_gates(text: &str) -> Outcome {
    let is_on = |entry: &&str| entry.trim().ends_with("=true");
    let mut unknown = Vec::new();
    for entry in text.split(',').filter(is_on) {
        let name = entry.split('=').next().unwrap_or_default().trim();
        if ELSEWHERE.contains(&name) {
            unknown.push(format!("{name} (has no effect in Berth)"));
        } else if gates::parse(&format!("{name}=true")).is_err() {
            unknown.push(format!("{name} (Berth refuses it)"));
        }
    }
    match (unknown.is_empty(), text) {
        (true, "") => Outcome::Ok("OpenKruise has no feature gates set".to_owned()),
        (true, set) => Outcome::Ok(format!(
            "Berth has the feature gates of OpenKruise: set controller.featureGates to {set}"
        )),
        _ => Outcome::Warn(
            format!(
                "feature gates of OpenKruise are unknown to Berth: {}",
                some_of(&unknown)
            ),
            "leave them out of controller.featureGates".to_owned(),
        ),
    }
}

/// Whether a definition is of one of Berth's kinds.
fn is_of_kruise(definition: &Value) -> bool {
    KINDS.iter().any(|kind| kind.crd() == name(definition))
}

fn image(deployment: &Value) -> String {
    let mut containers = items(deployment, "/spec/template/spec/containers");
    let image = containers.next().map(|one| text(one, "/image"));
    image.unwrap_or_default().to_owned()
}
