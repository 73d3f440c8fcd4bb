//! Categories `templates` and `states`: the chapter "Back to OpenKruise" of TAKEOVER.md as rules.

use berth_api::kinds::{self, releases};
use berth_api::names::condition::INPLACE_UPDATE_READY;
use berth_workload::objects::resource::{
    CLONE_SETS, CONTAINER_RECREATE_REQUESTS, DAEMON_SETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS,
    NODES, POD_UNAVAILABLE_BUDGETS, Resource, SIDECAR_SETS, STATEFUL_SETS,
};
use serde_json::Value;

use super::context::{Context, DEFINITIONS, HEAD, full_name, named};
use super::outcome::{Category, Found, Outcome, Rule, count, warn_if_any};
use crate::objects::{items, name, number, text};

const UNITED_DEPLOYMENTS: Resource = Resource::of(&kinds::UNITED_DEPLOYMENT);
const BROADCAST_JOBS: Resource = Resource::of(&kinds::BROADCAST_JOB);
const STEP_2: &str = "run the commands of charts/berth/TAKEOVER.md, back to OpenKruise, step 2";

/// Specs that OpenKruise reads in another way.
pub(super) static TEMPLATES: Category = Category {
    name: "templates",
    rules: &[
        Rule::new("defaults", |c| Box::pin(defaults(c))),
        Rule::new("readiness-gates", |c| Box::pin(readiness_gates(c))),
        Rule::new("ordered", |c| Box::pin(ordered(c))),
        Rule::new("native-sidecars", |c| Box::pin(native_sidecars(c))),
        Rule::new("uniteddeployments", |c| Box::pin(united(c))),
        Rule::new("release", |c| Box::pin(release(c))),
    ],
};
/// States in which Berth should not be replaced.
pub(super) static STATES: Category = Category {
    name: "states",
    rules: &[
        Rule::new("rollouts", |c| Box::pin(rollouts(c))),
        Rule::new("jobs", |c| Box::pin(jobs(c))),
        Rule::new("requests", |c| Box::pin(requests(c))),
        Rule::new("budgets", |c| Box::pin(budgets(c))),
        Rule::new("taints", |c| Box::pin(taints(c))),
    ],
};

/// `Kind namespace/name` of the objects of these kinds for which this holds.
async fn found(
    context: &Context<'_>,
    resources: &[Resource],
    is: fn(&Value) -> bool,
) -> Result<Vec<String>, super::context::Unread> {
    let mut found = Vec::new();
    for resource in resources {
        let all = context.list(*resource).await?;
        let those = all.iter().filter(|one| is(one));
        found.extend(those.map(|one| format!("{} {}", resource.kind, full_name(one))));
    }
    Ok(found)
}

async fn defaults(context: &Context<'_>) -> Found {
    let found = found(context, &[CLONE_SETS, STATEFUL_SETS], lacks_defaults).await?;
    Ok(warn_if_any(
        &found,
        "templates have Kubernetes' defaults",
        "templates lack Kubernetes' defaults: OpenKruise's first change would replace pods",
        STEP_2,
    ))
}

/// Whether a template lacks fields that the apiserver writes into each pod.
pub(super) fn lacks_defaults(workload: &Value) -> bool {
    let pod = &workload["spec"]["template"]["spec"];
    let lacks =
        |object: &Value, fields: &[&str]| fields.iter().any(|one| object.get(one).is_none());
    let of_pod = [
        "restartPolicy",
        "dnsPolicy",
        "schedulerName",
        "securityContext",
    ];
    let of_container = [
        "imagePullPolicy",
        "terminationMessagePath",
        "terminationMessagePolicy",
    ];
    let mut containers = items(pod, "/containers").chain(items(pod, "/initContainers"));
    lacks(pod, &of_pod) || containers.any(|one| lacks(one, &of_container))
}

async fn readiness_gates(context: &Context<'_>) -> Found {
    let found = found(context, &[STATEFUL_SETS], lacks_gate).await?;
    Ok(warn_if_any(
        &found,
        "StatefulSets that are updated in place have the readiness gate",
        "StatefulSets that are updated in place lack readiness gate InPlaceUpdateReady: OpenKruise refuses every change",
        STEP_2,
    ))
}

pub(super) fn lacks_gate(set: &Value) -> bool {
    let policy = text(set, "/spec/updateStrategy/rollingUpdate/podUpdatePolicy");
    let mut gates = items(set, "/spec/template/spec/readinessGates");
    policy.starts_with("InPlace")
        && !gates.any(|gate| gate["conditionType"] == INPLACE_UPDATE_READY)
}

async fn ordered(context: &Context<'_>) -> Found {
    let found = found(context, &[STATEFUL_SETS], is_ordered_with_more).await?;
    Ok(warn_if_any(
        &found,
        "StatefulSets in order have maxUnavailable 1",
        "StatefulSets in order have another maxUnavailable than 1: OpenKruise refuses every change",
        "set spec.updateStrategy.rollingUpdate.maxUnavailable to 1",
    ))
}

pub(super) fn is_ordered_with_more(set: &Value) -> bool {
    let most = set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
    text(set, "/spec/podManagementPolicy") != "Parallel" && most.is_some_and(|most| *most != 1)
}

async fn native_sidecars(context: &Context<'_>) -> Found {
    let found = found(context, &[SIDECAR_SETS], updates_native_sidecars).await?;
    Ok(warn_if_any(
        &found,
        "no SidecarSet updates native sidecars",
        "SidecarSets update native sidecars: OpenKruise refuses such changes",
        "set spec.updateStrategy.type to NotUpdate",
    ))
}

pub(super) fn updates_native_sidecars(set: &Value) -> bool {
    let mut containers = items(set, "/spec/initContainers");
    text(set, "/spec/updateStrategy/type") != "NotUpdate"
        && containers.any(|one| one["restartPolicy"] == "Always")
}

async fn united(context: &Context<'_>) -> Found {
    let all = context.list(UNITED_DEPLOYMENTS).await?;
    let lines = all.iter().flat_map(|one| {
        let name = full_name(one);
        united_faults(one)
            .into_iter()
            .map(move |fault| format!("{name}: {fault}"))
    });
    let lines: Vec<_> = lines.collect();
    Ok(match lines.len() {
        0 => Outcome::Ok(format!(
            "{} UnitedDeployments say all that OpenKruise needs",
            all.len()
        )),
        _ => Outcome::Warn(
            "UnitedDeployments mean something else to OpenKruise".to_owned(),
            lines.join("\n"),
        ),
    })
}

/// What to write into a UnitedDeployment before OpenKruise reads it.
pub(super) fn united_faults(united: &Value) -> Vec<&'static str> {
    let spec = &united["spec"];
    let templates = spec["template"].as_object();
    let template = templates.and_then(|kinds| kinds.iter().next());
    let of_kruise = ["cloneSetTemplate", "advancedStatefulSetTemplate"];
    let is_of_kruise = template.is_some_and(|(kind, _)| of_kruise.contains(&kind.as_str()));
    let inner = template
        .map(|(_, template)| &template["spec"])
        .unwrap_or(&Value::Null);
    let partition = inner.pointer("/updateStrategy/rollingUpdate/partition");
    let mut containers = items(inner, "/template/spec/containers");
    let lacks_policy = containers.any(|one| one.get("imagePullPolicy").is_none());
    let faults = [
        (
            spec.get("replicas").is_none(),
            "set spec.replicas; HEAD writes 1 otherwise",
        ),
        (
            text(spec, "/updateStrategy/type").is_empty(),
            "set spec.updateStrategy.type to Manual; the partitions are ignored otherwise",
        ),
        (
            inner.get("selector").is_none(),
            "write the template's selector; OpenKruise refuses every write otherwise",
        ),
        (
            inner.get("replicas").is_some() || partition.is_some(),
            "remove replicas and partition from the template; OpenKruise refuses every write otherwise",
        ),
        (
            is_of_kruise && lacks_policy,
            "write imagePullPolicy into the template with the next image; the next rollout recreates pods otherwise",
        ),
    ];
    faults
        .into_iter()
        .filter_map(|(is, fault)| is.then_some(fault))
        .collect()
}

async fn release(context: &Context<'_>) -> Found {
    let Some(release) = releases::named(context.release) else {
        return Ok(Outcome::Ok(format!(
            "{HEAD} serves all kinds as v1beta1; for a release: --return=1.9.0"
        )));
    };
    let definitions = context.list(DEFINITIONS).await?;
    let (mut losses, mut stored) = (Vec::new(), Vec::new());
    for older in release.kinds() {
        let kind = older.kind;
        let definition = named(&definitions, &kind.crd()).unwrap_or(&Value::Null);
        if items(definition, "/status/storedVersions").any(|version| version == kind.stored.name())
        {
            stored.push(kind.kind);
        }
        for object in &*context.list(Resource::of(kind)).await? {
            let line = match older.losses(&object.to_string()) {
                Ok(lost) => lost
                    .first()
                    .map(|loss| format!("{} is {}", loss.field, loss.value)),
                Err(error) => Some(error.to_string()),
            };
            losses.extend(line.map(|line| format!("{} {}: {line}", kind.kind, full_name(object))));
        }
    }
    let version = release.version;
    Ok(if !losses.is_empty() {
        Outcome::Fail(
            format!("release {version} drops fields of {} objects", losses.len()),
            losses.join("\n"),
        )
    } else if stored.is_empty() {
        Outcome::Ok(format!("release {version} can read all objects"))
    } else {
        Outcome::Warn(
            format!(
                "release {version} refuses definitions that stored v1beta1: {}",
                stored.join(", ")
            ),
            format!("run prepare-return --to {version}: charts/berth/TAKEOVER.md, step 3"),
        )
    })
}

async fn rollouts(context: &Context<'_>) -> Found {
    let kinds = [CLONE_SETS, STATEFUL_SETS, DAEMON_SETS, UNITED_DEPLOYMENTS];
    let found = found(context, &kinds, is_in_rollout).await?;
    Ok(warn_if_any(
        &found,
        "no rollout is in progress",
        "rollouts are in progress, or stand at a partition",
        "wait until they are done: OpenKruise recreates pods where a partition, a pause or a budget keeps a DaemonSet's pods at another revision",
    ))
}

/// Whether a workload has pods of an older revision.
pub(super) fn is_in_rollout(workload: &Value) -> bool {
    let status = |field: &str| number(workload, &format!("/status/{field}"));
    let updated = workload
        .pointer("/status/updatedReplicas")
        .or(workload.pointer("/status/updatedNumberScheduled"));
    let updated = updated.and_then(Value::as_i64).unwrap_or_default();
    let all = status("replicas").max(status("desiredNumberScheduled"));
    status("observedGeneration") < number(workload, "/metadata/generation") || updated < all
}

async fn jobs(context: &Context<'_>) -> Found {
    let found = found(context, &[BROADCAST_JOBS], |job| {
        !["completed", "failed"].contains(&text(job, "/status/phase"))
    })
    .await?;
    Ok(warn_if_any(
        &found,
        "no BroadcastJob runs",
        "BroadcastJobs are not over: OpenKruise begins again on nodes whose pod was deleted",
        "delete jobs that must not run twice",
    ))
}

async fn requests(context: &Context<'_>) -> Found {
    let found = found(context, &[CONTAINER_RECREATE_REQUESTS], |request| {
        text(request, "/status/phase") == "Pending"
    })
    .await?;
    Ok(warn_if_any(
        &found,
        "no ContainerRecreateRequest waits",
        "ContainerRecreateRequests wait for others, and stay Pending",
        "kubectl annotate --overwrite containerrecreaterequest NAME look=again, when OpenKruise runs",
    ))
}

async fn budgets(context: &Context<'_>) -> Found {
    let held = context.list(POD_UNAVAILABLE_BUDGETS).await?.len();
    let own = context
        .list(DISTRIBUTED_POD_DISRUPTION_BUDGETS)
        .await?
        .len();
    Ok(match (held, own) {
        (0, 0) => Outcome::Ok("there are no budgets".to_owned()),
        (_, 0) => Outcome::Warn(
            format!(
                "{} not enforced until OpenKruise's webhooks answer",
                count(held, "PodUnavailableBudget")
            ),
            "refuse evictions meanwhile, by the policy of charts/berth/TAKEOVER.md".to_owned(),
        ),
        _ => Outcome::Warn(
            format!(
                "{} of a kind that OpenKruise has not",
                count(own, "DistributedPodDisruptionBudget")
            ),
            "write PodUnavailableBudgets instead, and refuse evictions meanwhile".to_owned(),
        ),
    })
}

async fn taints(context: &Context<'_>) -> Found {
    let nodes = context.list(NODES).await?;
    let is_tainted = |node: &&Value| {
        items(node, "/spec/taints").any(|taint| text(taint, "/key").ends_with("/images-not-ready"))
    };
    let tainted: Vec<_> = nodes.iter().filter(is_tainted).map(name).collect();
    Ok(warn_if_any(
        &tainted,
        "no node has taint images-not-ready",
        "nodes have taint images-not-ready, which stays without Berth",
        "let new nodes register without the taint",
    ))
}
