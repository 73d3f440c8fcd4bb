//! A tenant's knowledge of others through the controller and the daemons: which ports are open,
//! which objects exist, and the counts of budgets in other namespaces.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::replicas::Replicas;
use super::{attack, attack_by_tenant};
use crate::node_jobs::request;
use crate::world::{Case, PATIENCE};

const POD_BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";

/// The daemon sends requests to no other host than the pod, and the event is the same for each
/// request that fails.
pub(crate) async fn pre_stop_hooks_scan_no_ports(case: &Case) -> Result<()> {
    attack(case, async || {
        let image = case.image("v1").await?;
        let controller = Replicas::now(case).await?.ips().pop().context("there is no replica")?;
        let hooks = [
            ("far", json!({"host": controller, "port": 8080})),
            ("closed", json!({"port": 1})),
            ("open", json!({"port": 8082})),
        ];
        let container = |(at, (name, hook)): (usize, &(&str, Value))| {
            json!({"name": name, "image": image, "env": [{"name": "PORT", "value": (8080 + at).to_string()}],
                   "lifecycle": {"preStop": {"httpGet": hook}}})
        };
        let containers: Vec<_> = hooks.iter().enumerate().map(container).collect();
        let spec = json!({"terminationGracePeriodSeconds": 3, "containers": containers});
        case.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scan"}, "spec": spec})).await?;
        let is_ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        case.until(kind::POD, "scan", is_ready).await?;
        let ask =
            request("scan", "scan", &hooks.each_ref().map(|(name, _)| *name), &json!({"ttlSecondsAfterFinished": 60}));
        case.create(&ask).await?;
        let failed =
            |name: &str, why: &str| format!("FailedPreStopHook: PreStopHook of container {name} failed: {why}");
        let far = failed("far", "its httpGet names a host that is not the pod's own address: remove httpGet.host");
        case.told("scan", |event| event == far).await?;
        case.told("scan", |event| event == failed("closed", "its httpGet failed")).await?;
        let is_over = |request: &Value| request["status"]["phase"] == "Completed";
        let over = case.until(kind::CONTAINER_RECREATE_REQUEST, "scan", is_over).await?;
        let states = &over["status"]["containerRecreateStates"];
        ensure!(states.as_array().is_some_and(|all| all.iter().all(|one| one["phase"] == "Succeeded")), "{states}");
        let events = case.events("scan").await?;
        ensure!(!events.iter().any(|event| event.starts_with(&failed("open", ""))), "its own port is open: {events:?}");
        Ok(())
    })
    .await
}

/// A budget reports the same for a Secret that exists as for one that does not.
pub(crate) async fn budgets_tell_of_no_secret(case: &Case) -> Result<()> {
    attack_by_tenant(case, async |tenant| {
        let inside = &*tenant.namespace;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}});
        objects::create(case.client(), inside, &secret).await?;
        let mut said = Vec::new();
        for name in ["there", "gone"] {
            let target = json!({"apiVersion": "v1", "kind": "Secret", "name": name});
            let spec = json!({"targetRef": target, "maxUnavailable": 1});
            let budget = json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": name}, "spec": spec});
            objects::create(case.client(), inside, &budget).await?;
            let is_told = |budget: &Value| budget["status"].to_string().contains("of spec.targetRef");
            let budget = objects::until(case.client(), inside, POD_BUDGET, name, PATIENCE, is_told).await?;
            // It does not matter here whether the apiserver calls the webhook yet.
            let conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
            let conditions = conditions.filter(|one| one["type"] != "Enforced");
            let text = |one: &Value| format!("{} {} {}", one["type"], one["reason"], one["message"]).replace(name, "NAME");
            said.push(conditions.map(text).collect::<Vec<_>>());
        }
        ensure!(said[0] == said[1], "a Secret that is there: {:?}; one that is not: {:?}", said[0], said[1]);
        Ok(())
    })
    .await
}

/// A tenant names no budget that it may not read, and an administrator's entries stay.
pub(crate) async fn federation_reads_for_no_stranger(case: &Case) -> Result<()> {
    attack_by_tenant(case, async |tenant| {
        let inside = ["-n", &tenant.namespace];
        let account = format!("--serviceaccount={}:tenant", tenant.namespace);
        let resource = "--resource=distributedpoddisruptionbudgets.policy.kruise.io";
        for command in [
            &["create", "role", "budgets", "--verb=*", resource][..],
            &["create", "rolebinding", "budgets", "--role=budgets", &account],
        ] {
            case.kubectl(&[command, &inside[..]].concat()).await?;
        }
        let budget = |name: &str, namespace: &str, kind: &str| {
            let member = json!({"namespace": namespace, "name": "web", "kind": kind});
            let spec = json!({"selector": {"matchLabels": {"no": "body"}}, "minAvailable": 1, "federation": [member]});
            json!({"apiVersion": "policy.kruise.io/v1alpha1", "kind": "DistributedPodDisruptionBudget", "metadata": {"name": name}, "spec": spec})
        };
        let native = "PodDisruptionBudget";
        let user = format!("which system:serviceaccount:{}:tenant may not read", tenant.namespace);
        for (namespace, kind) in
            [(&*case.namespace, native), ("kube-system", native), (&case.namespace, "PodUnavailableBudget")]
        {
            let refused = tenant.create(&budget("spy", namespace, kind)).await.err();
            let refused = format!("{:#}", refused.with_context(|| format!("{kind} of {namespace} is named"))?);
            ensure!(refused.contains(&format!("{namespace}/web, {user}")), "{refused}");
        }
        tenant.create(&budget("own", &tenant.namespace, "DistributedPodDisruptionBudget")).await.context("its own")?;
        objects::create(case.client(), &tenant.namespace, &budget("given", &case.namespace, native)).await?;
        let kind = "policy.kruise.io/v1alpha1/DistributedPodDisruptionBudget";
        let other = json!({"spec": {"minAvailable": 2}});
        objects::patch(&tenant.client, &tenant.namespace, kind, "given", &other).await.context("what else there is")?;
        Ok(())
    })
    .await
}
