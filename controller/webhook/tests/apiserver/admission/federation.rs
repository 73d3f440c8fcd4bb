//! Budgets that an author names in `spec.federation`: only those of this cluster that the author
//! may get.

use anyhow::{Context, Result, ensure};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::admission::{refused, trial};
use crate::stage::{NAMESPACE, Stage, until};

/// The policy gives each authorization check 350,000 of 10,000,000 units, so a full list shows
/// whether it fits.
const MOST: usize = 16;

fn budgets(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "policy.kruise.io",
        "v1alpha1",
        "DistributedPodDisruptionBudget",
    );
    Api::namespaced_with(client.clone(), "federation", &ApiResource::from_gvk(&kind))
}

fn budget(federation: &Value) -> DynamicObject {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1, "federation": federation});
    let budget = json!({"apiVersion": "policy.kruise.io/v1alpha1", "kind": "DistributedPodDisruptionBudget",
                        "metadata": {"name": "web"}, "spec": spec});
    serde_json::from_value(budget).unwrap_or_else(|_| unreachable!("it is an object"))
}

fn member(namespace: &str, name: &str, kind: &str) -> Value {
    let mut member = json!({"namespace": namespace, "name": name});
    if !kind.is_empty() {
        member["kind"] = kind.into();
    }
    member
}

/// A tenant, who may write budgets in namespace federation, and read there and the budgets of
/// namespace friend that are named here.
fn tenant(stage: &Stage) -> Result<String> {
    let may = "--verb=get,create,update,patch";
    for arguments in [
        "create namespace friend",
        "create serviceaccount tenant --namespace kruise-system",
        "create role tenant --namespace federation --resource=distributedpoddisruptionbudgets.policy.kruise.io",
        "create role native --namespace friend --verb=get --resource=poddisruptionbudgets.policy --resource-name=web",
        "create role ours --namespace friend --verb=get --resource=podunavailablebudgets.policy.kruise.io",
        "create rolebinding tenant --namespace federation --role=tenant --serviceaccount=kruise-system:tenant",
        "create rolebinding native --namespace friend --role=native --serviceaccount=kruise-system:tenant",
        "create rolebinding ours --namespace friend --role=ours --serviceaccount=kruise-system:tenant",
    ] {
        let mut arguments: Vec<_> = arguments.split(' ').collect();
        if arguments.starts_with(&["create", "role", "tenant"]) {
            arguments.push(may);
        }
        stage.kubectl(&arguments, None)?;
    }
    ensure!(
        NAMESPACE == "kruise-system",
        "the account is in {NAMESPACE}"
    );
    stage.token("tenant", &[])
}

#[test]
fn federation_names_only_what_its_author_may_get() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("federation")?;
    let token = tenant(&stage)?;
    stage.run(async |admin| {
        let own = budgets(&stage.client(Some(token)).await?);
        let by_admin = budgets(&admin);
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let native = "PodDisruptionBudget";
        until("the policies are in force", async || {
            refused(
                "a probe",
                own.create(&dry_run, &budget(&json!([member("victim", "web", native)]))).await,
                "victim/web",
            )
        })
        .await?;

        let user = "system:serviceaccount:kruise-system:tenant";
        let says = |entry: &str, resource: &str| {
            let namespace = entry.split('/').next().unwrap_or_default();
            format!(
                "spec.federation: names {entry}, which {user} may not read: remove the entry, or let an administrator \
                     allow get of {resource} in namespace {namespace}"
            )
        };
        let in_cluster = |name: &str| {
            let mut member = member("victim", "web", native);
            member["cluster"] = name.into();
            member
        };
        let distributed = "distributedpoddisruptionbudgets.policy.kruise.io";
        for (federation, expected) in [
            (json!([]), None),
            (json!([member("federation", "x", "DistributedPodDisruptionBudget")]), None),
            (json!([member("friend", "web", native)]), None),
            (json!([member("friend", "any", "PodUnavailableBudget")]), None),
            (json!([in_cluster("blue")]), None),
            (json!([in_cluster("red")]), Some(says("victim/web", "poddisruptionbudgets.policy"))),
            (json!([member("friend", "other", native)]), Some(says("friend/other", "poddisruptionbudgets.policy"))),
            (
                json!([member("kube-system", "dns", native)]),
                Some(says("kube-system/dns", "poddisruptionbudgets.policy")),
            ),
            (
                json!([member("victim", "web", "PodUnavailableBudget")]),
                Some(says("victim/web", "podunavailablebudgets.policy.kruise.io")),
            ),
            (
                json!([member("friend", "web", native), member("victim", "web", "DistributedPodDisruptionBudget")]),
                Some(says("victim/web", distributed)),
            ),
            // Without a kind it may be of two kinds, and the author may get one of them.
            (json!([member("friend", "web", "")]), Some(says("friend/web", distributed))),
        ] {
            let answer = own.create(&dry_run, &budget(&federation)).await;
            match expected {
                Some(says) => refused(&federation.to_string(), answer, &says)?,
                None => drop(answer.with_context(|| federation.to_string())?),
            }
        }

        // An administrator may name any budget, and a full list fits into the cost limit of a
        // policy.
        let full: Vec<_> = (0..MOST).map(|at| member("victim", &format!("b{at}"), "")).collect();
        by_admin.create(&dry_run, &budget(&json!(full))).await.context("a full list")?;
        let named = json!([member("victim", "web", native)]);
        by_admin.create(&PostParams::default(), &budget(&named)).await.context("by an administrator")?;

        // The tenant changes other fields, and removes entries, but adds none.
        let merge = |spec: Value| Patch::Merge(json!({"spec": spec}));
        own.patch("web", &trial(), &merge(json!({"minAvailable": 2}))).await.context("another field")?;
        let more = json!({"federation": [named[0], member("friend", "web", native)]});
        own.patch("web", &trial(), &merge(more)).await.context("one more that the tenant may get")?;
        for other in [member("victim", "web", ""), member("victim", "db", native)] {
            let changed = own.patch("web", &trial(), &merge(json!({"federation": [other]}))).await;
            refused(&other.to_string(), changed, "which system:serviceaccount:kruise-system:tenant may not read")?;
        }
        own.patch("web", &PatchParams::default(), &merge(json!({"federation": []}))).await.context("none")?;
        refused("again", own.patch("web", &trial(), &merge(json!({"federation": named}))).await, "victim/web")
    })
}
