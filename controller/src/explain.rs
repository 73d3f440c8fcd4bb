//! `explain`: the controller's own observe and decide, printed instead of executed.

mod leader;
mod printed;

use std::sync::Arc;

use crate::flags::{Explain, ExplainKind, Output, Run};
use crate::timings;
use anyhow::{Context, bail};
use berth_api::commands;
use berth_api::name::Namespace;
use berth_kinds::broadcastjob::{decide as decide_broadcast_job, status as broadcast_job_status};
use berth_kinds::cloneset::{decide as decide_clone_set, status as clone_set_status};
use berth_kinds::containerrecreaterequest::{
    decide as decide_container_recreate_request, restarts,
    status as container_recreate_request_status,
};
use berth_kinds::daemonset::{decide as decide_daemon_set, status as daemon_set_status};
use berth_kinds::distributedpoddisruptionbudget::{
    decide as decide_distributed_pod_disruption_budget,
    status as distributed_pod_disruption_budget_status,
};
use berth_kinds::persistentpodstate::{
    Pinning, decide as decide_persistent_pod_state, explain as explain_persistent_pod_state,
};
use berth_kinds::podunavailablebudget::{
    decide as decide_pod_unavailable_budget, status as pod_unavailable_budget_status,
};
use berth_kinds::sidecarset::{
    Asked as SidecarsAsked, decide as decide_sidecar_set, status as sidecar_set_status,
};
use berth_kinds::statefulset::{decide as decide_stateful_set, status as stateful_set_status};
use berth_kinds::uniteddeployment::{
    Round as UnitedDeploymentRound, decide as decide_united_deployment,
    explain as explain_united_deployment, status as united_deployment_status,
};
use berth_runtime::executor::Owner;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::NODES;
use berth_runtime::{Key, Object, Resource};
use berth_webhook::PodWebhook;
use berth_webhook::pods::Added;
use berth_workload::budget::asked::Asked;
use berth_workload::budget::beyond;
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::plan::{Outcome, Plan, Waiting};
use berth_workload::pod::spread::is_constrained;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use crate::controller::Controller;
use crate::controllers::{
    broadcastjob, cloneset, containerrecreaterequest, daemonset, distributedpoddisruptionbudget,
    persistentpodstate, podunavailablebudget, sidecarset, statefulset, uniteddeployment,
};
use crate::injection::Injection;
use crate::kinds::Kinds;
use crate::pod_asks::PodAsks;
use crate::pod_budgets::BudgetStores;
use crate::pod_budgets::{Budget, PodBudgets, told_of};
use crate::pod_pinning::PodPinning;
use crate::reads::{Namespaces, Stores};
use crate::resize;
use crate::watched::by_namespace;
use printed::{Explained, NodeDrain};

/// Prints the plan for one object, as a controller of these flags would carry it out.
///
/// # Errors
/// The object does not exist, or the apiserver did not answer.
pub(crate) async fn explain(
    explain: &Explain,
    config: kube::Config,
    gates: Gates,
    (run, pinning): (&Run, &PodPinning),
) -> anyhow::Result<()> {
    let is_budget = matches!(
        explain.kind,
        ExplainKind::Distributedpoddisruptionbudget | ExplainKind::Podunavailablebudget
    );
    if explain.node.is_some() && !is_budget {
        bail!(
            "--node asks what a drain would get by a budget: explain pub NAME --node NODE, or dpdb NAME"
        );
    }
    let explained = match explain.kind {
        // It is in no namespace, and its pods are in any.
        ExplainKind::Sidecarset => String::new(),
        _ => Namespace::parse(
            explain
                .namespace
                .as_ref()
                .unwrap_or(&config.default_namespace),
        )?
        .to_string(),
    };
    let client = berth_runtime::client::connect(config, Metrics::new(|_| {}))?;
    let resize = resize::ability(&client, gates)
        .await
        .context("cannot ask whether the cluster resizes pods")?;
    let namespaces = Namespaces {
        own: run.namespace.clone(),
        explained,
    };
    let (name, node) = (&*explain.name, explain.node.as_deref());
    let look = Look {
        client,
        namespaces,
        run,
        name,
        node,
        gates,
        resize,
    };
    let mut explanation = match explain.kind {
        ExplainKind::Broadcastjob => look.at_broadcast_job().await?,
        ExplainKind::Cloneset => look.at_clone_set().await?,
        ExplainKind::Daemonset => look.at_daemon_set().await?,
        ExplainKind::Containerrecreaterequest => look.at_container_recreate_request().await?,
        ExplainKind::Statefulset => look.at_stateful_set().await?,
        ExplainKind::Distributedpoddisruptionbudget => {
            look.at_distributed_pod_disruption_budget().await?
        }
        ExplainKind::Podunavailablebudget => look.at_pod_unavailable_budget().await?,
        ExplainKind::Sidecarset => look.at_sidecar_set().await?,
        ExplainKind::Persistentpodstate => look.at_persistent_pod_state(pinning).await?,
        ExplainKind::Uniteddeployment => look.at_united_deployment().await?,
    };
    let something = Some(explanation.kind).filter(|_| !explanation.plan.is_idle());
    if let Some(kind) = something.and_then(berth_api::kinds::named) {
        let object = (Resource::of(kind), &*look.namespaces.explained, look.name);
        explanation.wait = Some(leader::wait(&look.client, run, object).await);
    }
    match explain.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Text => print!("{explanation}"),
    }
    Ok(())
}

/// What is looked at.
struct Look<'a> {
    client: Client,
    namespaces: Namespaces,
    /// The flags of the controller.
    run: &'a Run,
    name: &'a str,
    /// Of which it is told what a drain would get.
    node: Option<&'a str>,
    gates: Gates,
    resize: Ability,
}

impl Look<'_> {
    async fn at_broadcast_job(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = broadcastjob::Reads::new(&mut stores.reader());
        let budgets = self.budget_stores(&mut stores);
        self.read(&stores, || true).await?;
        let Some(job) = reads.jobs.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("BroadcastJob");
        };
        let (snapshot, now) = (
            broadcastjob::observe(&reads, &job, self.gates),
            Timestamp::now(),
        );
        let plan = decide_broadcast_job(&snapshot, now);
        let (carried_out, outcome) = self.carried_out(&plan, &budgets, &*job).await;
        let status = broadcast_job_status(&snapshot, &plan, &outcome, now);
        Ok(self.explained(
            "BroadcastJob",
            carried_out,
            &json!(status),
            &json!(snapshot.job.status),
        ))
    }

    async fn at_clone_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = cloneset::Reads::new(&mut stores.reader());
        let budgets = self.budget_stores(&mut stores);
        self.read(&stores, || {
            reads
                .clonesets
                .all()
                .iter()
                .any(|set| is_constrained(&set.0.spec.template))
        })
        .await?;
        let Some(set) = reads.clonesets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("CloneSet");
        };
        let (snapshot, now) = (
            cloneset::observe(&reads, &set, self.gates, self.resize),
            Timestamp::now(),
        );
        let plan = decide_clone_set(&snapshot, now);
        let (carried_out, outcome) = self.carried_out(&plan, &budgets, &*set).await;
        let status = clone_set_status(&snapshot, &plan, &outcome, now);
        Ok(self.explained(
            "CloneSet",
            carried_out,
            &json!(status),
            &json!(snapshot.set.status),
        ))
    }

    async fn at_daemon_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = daemonset::Reads::new(&mut stores.reader());
        let budgets = self.budget_stores(&mut stores);
        self.read(&stores, || true).await?;
        let Some(set) = reads.sets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("DaemonSet");
        };
        let (snapshot, now) = (
            daemonset::observe(&reads, &set, self.gates, self.resize, true),
            Timestamp::now(),
        );
        let plan = decide_daemon_set(&snapshot, now);
        let (carried_out, outcome) = self.carried_out(&plan, &budgets, &*set).await;
        let status = daemon_set_status(&snapshot, &plan, &outcome, now);
        Ok(self.explained(
            "DaemonSet",
            carried_out,
            &json!(status),
            &json!(snapshot.set.status),
        ))
    }

    async fn at_container_recreate_request(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = containerrecreaterequest::Reads::new(&mut stores.reader());
        let budgets = self.budget_stores(&mut stores);
        self.read(&stores, || false).await?;
        let Some(request) = reads.requests.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("ContainerRecreateRequest");
        };
        let mut snapshot = reads
            .observe(&self.client, &request, self.gates)
            .await
            .context("cannot read the pod")?;
        let now = Timestamp::now();
        if let Some(pod) = &snapshot.pod {
            let containers = restarts(&snapshot, now);
            snapshot.held = self
                .budgets(&budgets)
                .held_restart(pod, &Owner::of(&*request), &containers)
                .await;
        }
        let plan = decide_container_recreate_request(&snapshot, now);
        let status = container_recreate_request_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(self.explained(
            "ContainerRecreateRequest",
            plan,
            &json!(status),
            &json!(snapshot.request.status),
        ))
    }

    async fn at_stateful_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = statefulset::Reads::new(&mut stores.reader());
        let budgets = self.budget_stores(&mut stores);
        // A node may be why a pod does not go, or is not scheduled.
        self.read(&stores, || true).await?;
        let Some(set) = reads.sets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("StatefulSet");
        };
        let (snapshot, now) = (
            statefulset::observe(&reads, &set, self.gates, self.resize),
            Timestamp::now(),
        );
        let plan = decide_stateful_set(&snapshot, now);
        let (carried_out, outcome) = self.carried_out(&plan, &budgets, &*set).await;
        let status = stateful_set_status(&snapshot, &plan, &outcome, now);
        Ok(self.explained(
            "StatefulSet",
            carried_out,
            &json!(status),
            &json!(snapshot.set.status),
        ))
    }

    async fn at_sidecar_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = sidecarset::Reads::new(&mut stores.reader());
        let budgets = self.budget_stores(&mut stores);
        self.read(&stores, || false).await?;
        let Some(set) = reads.sets.get("", self.name) else {
            return self.is_missing("SidecarSet");
        };
        let asks = Arc::<PodAsks>::default();
        // Where the entries are not ours to read there are none, and nothing is added to them.
        asks.connect(PodWebhook::looked_at(Some(
            Added::read(&self.client).await.unwrap_or_default(),
        )));
        let injection = Injection::new(
            asks,
            self.gates,
            &self.namespaces.own,
            &self.run.protected_namespaces,
            None,
        );
        let (mut snapshot, now) = (reads.observe(&set, &injection), Timestamp::now());
        if snapshot.asked != SidecarsAsked::Never {
            // What a running controller has seen, its condition tells.
            snapshot.asked = SidecarsAsked::told(&set.0);
        }
        let plan = decide_sidecar_set(&snapshot, now);
        let (carried_out, outcome) = self.carried_out(&plan, &budgets, &*set).await;
        let status = sidecar_set_status(&snapshot, &plan, &outcome, now);
        Ok(self.explained(
            "SidecarSet",
            carried_out,
            &json!(status),
            &json!(set.0.status),
        ))
    }

    /// Pod by pod, where it was and how the next one is pinned, in place of what is waited for.
    async fn at_persistent_pod_state(&self, pinning: &PodPinning) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = persistentpodstate::Reads::new(&mut stores.reader());
        self.read(&stores, || true).await?;
        let Some(state) = reads.states.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("PersistentPodState");
        };
        let key = Key::new(&self.namespaces.explained, self.name);
        let mut snapshot = reads.observe(&key, Some(&state), self.gates);
        snapshot.pinning = match pinning.of(&state.0) {
            // Only a controller that runs knows what it has written.
            Pinning::NotYet | Pinning::TooMany => Pinning::Webhook,
            known => known,
        };
        let mut plan = decide_persistent_pod_state(&snapshot, Timestamp::now());
        plan.waiting = explain_persistent_pod_state(&snapshot);
        Ok(Explained {
            heading: "Pods:",
            ..self.explained("PersistentPodState", plan, &Value::Null, &Value::Null)
        })
    }

    async fn at_united_deployment(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = uniteddeployment::Reads::new(&mut stores.reader());
        self.read(&stores, || false).await?;
        let Some(united) = reads.united.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("UnitedDeployment");
        };
        let (snapshot, now) = (reads.observe(&united), Timestamp::now());
        let round = UnitedDeploymentRound::of(&snapshot, now);
        let mut plan = decide_united_deployment(&snapshot, &round, now);
        let status = united_deployment_status(&snapshot, &round, &plan, &Outcome::default(), now);
        plan.waiting = explain_united_deployment(&snapshot, &round);
        let explained = self.explained(
            "UnitedDeployment",
            plan,
            &json!(status),
            &json!(snapshot.united.status),
        );
        Ok(Explained {
            heading: "Subsets:",
            ..explained
        })
    }

    async fn at_pod_unavailable_budget(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = podunavailablebudget::Reads::new(&mut stores.reader());
        // Others may hold the same pods.
        let all = self.budget_stores(&mut stores);
        self.read(&stores, || true).await?;
        let Some(budget) = reads.budgets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("PodUnavailableBudget");
        };
        let budgets = self.budgets(&all);
        if let Some(why) = budgets.beyond(&Budget::Unavailable(budget.0.clone())) {
            let plan = beyond::plan(&[], &why, None);
            return Ok(self.explained("PodUnavailableBudget", plan, &Value::Null, &Value::Null));
        }
        let Ok(mut snapshot) = reads.observe(&budgets, &budget).await else {
            bail!("the apiserver does not say how many pods are expected: try again")
        };
        // What a running controller has written, its condition tells.
        let conditions = budget.0.status.iter().flat_map(|status| &status.conditions);
        snapshot.asked = Asked::told(conditions);
        let now = Timestamp::now();
        let plan = decide_pod_unavailable_budget(&snapshot, now);
        let status = pod_unavailable_budget_status(&snapshot, now);
        let explained = self.explained(
            "PodUnavailableBudget",
            plan,
            &json!(status),
            &json!(budget.0.status),
        );
        self.with_drains(
            explained,
            &budgets,
            &Budget::Unavailable(budget.0.clone()),
            &all,
        )
        .await
    }

    async fn at_distributed_pod_disruption_budget(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = distributedpoddisruptionbudget::Reads::new(&mut stores.reader());
        let all = self.budget_stores(&mut stores);
        self.read(&stores, || true).await?;
        let Some(budget) = reads.budgets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("DistributedPodDisruptionBudget");
        };
        let budgets = self.budgets(&all);
        if let Some(why) = budgets.beyond(&Budget::Distributed(budget.0.clone())) {
            let plan = beyond::plan(&[], &why, None);
            return Ok(self.explained(
                "DistributedPodDisruptionBudget",
                plan,
                &Value::Null,
                &Value::Null,
            ));
        }
        let Ok(mut snapshot) = reads.observe(&budgets, &budget).await else {
            bail!("the apiserver does not say how many pods are expected: try again")
        };
        // Budgets of other namespaces are read by name.
        let Ok(others) = budgets.others(&Budget::Distributed(budget.0.clone())).await else {
            bail!("the apiserver does not say what the budgets of spec.federation have: try again")
        };
        for ((other, brings), member) in snapshot
            .others
            .iter_mut()
            .zip(others)
            .zip(&budget.0.spec.federation)
        {
            other.brings = brings;
            if budgets.clusters().has(member) {
                *other = told_of(&budget.0, member);
            }
        }
        let conditions = budget.0.status.iter().flat_map(|status| &status.conditions);
        snapshot.asked = Asked::told(conditions);
        let now = Timestamp::now();
        let plan = decide_distributed_pod_disruption_budget(&snapshot, now);
        let status = distributed_pod_disruption_budget_status(&snapshot, now);
        let explained = self.explained(
            "DistributedPodDisruptionBudget",
            plan,
            &json!(status),
            &json!(budget.0.status),
        );
        self.with_drains(
            explained,
            &budgets,
            &Budget::Distributed(budget.0.clone()),
            &all,
        )
        .await
    }

    /// The stores of budgets of the kinds that are worked on.
    fn budget_stores(&self, stores: &mut Stores) -> BudgetStores {
        let mut kinds = Kinds::parse(&self.run.custom_resource_enable);
        BudgetStores::new(&mut stores.reader(), |kind| kinds.has(kind))
    }

    /// The budgets that were read. What they grant stands in copies.
    fn budgets(&self, stores: &BudgetStores) -> Arc<PodBudgets> {
        let patience = timings::patience(self.run);
        PodBudgets::only_read(
            self.client.clone(),
            self.gates,
            Some(stores.clone()),
            (&self.run.cluster_name, patience, true),
        )
    }

    /// The plan as the controller carries it out now, where the steps wait that a budget refuses; and what comes of these steps.
    async fn carried_out<T: Object>(
        &self,
        plan: &Plan,
        budgets: &BudgetStores,
        of: &T,
    ) -> (Plan, Outcome) {
        let (admitted, failures) = self.budgets(budgets).explained(plan, &Owner::of(of)).await;
        (
            printed::with_waiting(plan, admitted, &failures, T::RESOURCE.namespaced),
            Outcome { failures },
        )
    }

    fn explained(&self, kind: &'static str, plan: Plan, status: &Value, old: &Value) -> Explained {
        let name = match self.namespaces.explained.as_str() {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        };
        Explained::new((kind, name), plan, status, old)
    }

    /// Adds what a drain of the node would get, or which nodes could be drained.
    async fn with_drains(
        &self,
        mut explained: Explained,
        budgets: &PodBudgets,
        budget: &Budget,
        stores: &BudgetStores,
    ) -> anyhow::Result<Explained> {
        explained.heading = "Pods:";
        if let Some(node) = self.node
            && stores.nodes.get("", node).is_none()
        {
            bail!(
                "there is no node {node:?}; see {}",
                commands::list("nodes", "")
            );
        }
        let natives = stores
            .natives
            .by_index(&by_namespace(), &self.namespaces.explained);
        let Ok(drains) = budgets.drains(budget, &natives).await else {
            bail!("the apiserver does not say what the budgets of the namespace have: try again")
        };
        match (self.node, drains) {
            (Some(node), Some(drains)) => {
                explained.drain = Some(NodeDrain {
                    node: node.to_owned(),
                    pods: drains.of_node(node).await,
                });
            }
            (Some(_), None) => bail!("it is being deleted, and holds no pods any more"),
            (None, Some(drains)) => {
                let lines = drains.of_nodes().into_iter();
                explained.plan.waiting.extend(lines.map(|reason| Waiting {
                    pod: String::new(),
                    reason,
                }));
            }
            (None, None) => {}
        }
        Ok(explained)
    }

    /// Reads all that the stores are of. Only a template that spreads its pods asks where its nodes are.
    async fn read(&self, stores: &Stores, is_spread: impl Fn() -> bool) -> anyhow::Result<()> {
        const UNREAD: &str = "cannot read the cluster's state";
        stores
            .look(&self.client, &self.namespaces, |resource| resource != NODES)
            .await
            .context(UNREAD)?;
        if is_spread() {
            stores
                .look(&self.client, &self.namespaces, |resource| resource == NODES)
                .await
                .context(UNREAD)?;
        }
        Ok(())
    }

    fn is_missing(&self, kind: &str) -> anyhow::Result<Explained> {
        let (name, namespace, plural) =
            (self.name, &self.namespaces.explained, kind.to_lowercase());
        if namespace.is_empty() {
            bail!(
                "there is no {kind} {name:?}; see {}",
                commands::list(&format!("{plural}s"), "")
            );
        }
        let group =
            berth_api::kinds::named(kind).map_or(berth_api::names::GROUP, |kind| kind.group);
        let everywhere = commands::list_everywhere(&format!("{plural}s.{group}"));
        bail!("there is no {kind} {name:?} in namespace {namespace:?}; see {everywhere}")
    }
}
