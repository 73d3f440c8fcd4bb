//! The state at the end of a run, without names, uids, addresses and times, because these differ.

use anyhow::Result;
use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::UNITED;
use super::expected::{CLONE_SETS, DEPLOYMENTS, Expected};
use crate::pod_ending::PodEnding;
use crate::sidecar_set::status;
use crate::world::World;

pub(super) const DEPLOYMENT: &str = "apps/v1/Deployment";

/// The kind of a resource of workloads.
fn kind_of(resource: &str) -> &'static str {
    match resource {
        CLONE_SETS => kind::CLONE_SET,
        DEPLOYMENTS => DEPLOYMENT,
        _ => kind::STATEFUL_SET,
    }
}

/// The present state, and how it differs from the wanted one.
pub(super) async fn look(
    world: &World,
    namespace: &str,
    wanted: &Expected,
) -> Result<(Value, Option<String>)> {
    let list = async |kind: &str| objects::list(&world.client, namespace, kind, "").await;
    let united = list(kind::UNITED_DEPLOYMENT)
        .await?
        .into_iter()
        .find(|united| united["metadata"]["name"] == UNITED);
    let mut workloads = Vec::new();
    for kind in [kind::CLONE_SET, DEPLOYMENT, kind::STATEFUL_SET] {
        workloads.extend(
            list(kind)
                .await?
                .into_iter()
                .map(|workload| (kind, workload)),
        );
    }
    let mut pods = Vec::new();
    for pod in list(kind::POD).await? {
        pods.push((
            text(&pod["metadata"]["labels"][SUBSET_NAME]),
            PodEnding::read(&pod, wanted.changes == 0)?,
        ));
    }
    let mut revisions: Vec<_> = list(kind::REVISION).await?.iter().map(revision).collect();
    revisions.sort();
    let status = united.as_ref().map(told).unwrap_or_default();
    let flaw = flaw(world, wanted, &workloads, &pods, &status);
    let mut pods: Vec<_> = pods.iter().map(|pod| json!(pod)).collect();
    pods.sort_by_key(Value::to_string);
    let now = json!({
        "status": status,
        "workloads": workloads.iter().map(workload).collect::<Vec<_>>(),
        "pods": pods,
        "revisions": revisions,
    });
    // The name of a workload contains a hash of the UnitedDeployment's uid. The names of the
    // workload's pods and revisions begin with this name.
    let named = |text: String, (kind, workload): &(&str, Value)| {
        let subset = &workload["metadata"]["labels"][SUBSET_NAME];
        text.replace(
            workload["metadata"]["name"].as_str().unwrap_or("?"),
            &format!("{kind} of {}", self::text(subset)),
        )
    };
    let mut now: Value = serde_json::from_str(&workloads.iter().fold(now.to_string(), named))?;
    if let Some(workloads) = now["workloads"].as_array_mut() {
        workloads.sort_by_key(Value::to_string);
    }
    let flaw = flaw.map(|flaw| format!("{flaw}: {now}"));
    Ok((now, flaw))
}

/// The status without times, and with its conditions in the order of their types.
fn told(united: &Value) -> Value {
    let mut status = status(united);
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    for subset in status["subsetStatuses"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        for condition in subset["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = Value::Null;
        }
    }
    status
}

fn workload((kind, workload): &(&str, Value)) -> Value {
    let metadata = &workload["metadata"];
    json!({
        "kind": kind,
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "spec": workload["spec"],
    })
}

/// Owner and number of a revision.
fn revision(revision: &Value) -> (String, i64) {
    let owner = &revision["metadata"]["ownerReferences"][0];
    (
        format!("{} {}", text(&owner["kind"]), text(&owner["name"])),
        revision["revision"].as_i64().unwrap_or_default(),
    )
}

/// The first difference from the wanted state.
fn flaw(
    world: &World,
    wanted: &Expected,
    workloads: &[(&str, Value)],
    pods: &[(String, PodEnding)],
    status: &Value,
) -> Option<String> {
    let digest = world
        .digests
        .get(wanted.image)
        .map(String::as_str)
        .unwrap_or_default();
    let revision = &status["updatedRevision"];
    let is_pod = |(subset, pod): &(String, PodEnding)| {
        let label = pod
            .labels
            .get(KRUISE_CONTROLLER_REVISION_HASH)
            .map(String::as_str);
        wanted.shares.iter().any(|(name, _)| name == subset)
            && pod.has_image((wanted.image, digest))
            && pod.is_at_rest()
            && label == revision.as_str()
    };
    let has_pods = |(name, replicas): &(&str, usize)| {
        pods.iter().filter(|(of, _)| of == name).count() == *replicas
    };
    let has_workload = |(name, replicas): &(&str, usize)| {
        let mut own = workloads
            .iter()
            .filter(|(_, workload)| workload["metadata"]["labels"][SUBSET_NAME] == *name);
        let is_it = |(kind, workload): &(&str, Value)| {
            *kind == kind_of(wanted.resource) && workload["spec"]["replicas"] == *replicas
        };
        own.next().is_some_and(is_it) && own.next().is_none()
    };
    if !pods.iter().all(is_pod) || !wanted.shares.iter().all(has_pods) {
        return Some("other pods".to_owned());
    }
    if workloads.len() != wanted.shares.len() || !wanted.shares.iter().all(has_workload) {
        return Some("other workloads".to_owned());
    }
    let all: usize = wanted.shares.iter().map(|(_, replicas)| replicas).sum();
    (!says(status, wanted, all)).then(|| "another status".to_owned())
}

/// Whether the status has the wanted numbers and conditions.
fn says(status: &Value, wanted: &Expected, all: usize) -> bool {
    let counts = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updatedReadyReplicas",
    ];
    let shares = status["subsetStatuses"].as_array().into_iter().flatten();
    let number = |value: &Value| {
        value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
    };
    let shares = shares.map(|subset| {
        (
            text(&subset["name"]),
            ["replicas", "readyReplicas"].map(|count| number(&subset[count])),
        )
    });
    let is = |type_: &str, wanted: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == type_ && condition["status"] == wanted)
    };
    status["observedGeneration"] == true
        && counts.iter().all(|count| status[count] == all)
        && status["reservedPods"] == 0
        && status["currentRevision"] == status["updatedRevision"]
        && status["collisionCount"].is_null()
        && shares.eq(wanted
            .shares
            .iter()
            .map(|(name, count)| ((*name).to_owned(), [Some(*count); 2])))
        && is("UnitedDeploymentUpdated", "True")
        && is("SubsetProvisioned", "True")
        && is("SubsetUpdated", "True")
        && !is("Blocked", "True")
        && !is_unschedulable(status)
}

/// Whether the status has an unschedulable subset.
fn is_unschedulable(status: &Value) -> bool {
    let subsets = status["subsetStatuses"].as_array().into_iter().flatten();
    let mut conditions =
        subsets.flat_map(|subset| subset["conditions"].as_array().into_iter().flatten());
    conditions.any(|condition| condition["status"] == "False")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
