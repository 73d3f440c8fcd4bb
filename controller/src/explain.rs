//! `explain`: the controller's own observe and decide, printed instead of executed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use berth_api::name::Namespace;
use berth_api::names::condition;
use berth_controller::flags::{Explain, ExplainKind, Output};
use berth_kinds::broadcastjob::{decide as decide_broadcast_job, status as broadcast_job_status};
use berth_kinds::cloneset::{decide as decide_clone_set, status as clone_set_status};
use berth_kinds::containerrecreaterequest::{
    decide as decide_container_recreate_request, status as container_recreate_request_status,
};
use berth_kinds::daemonset::{decide as decide_daemon_set, status as daemon_set_status};
use berth_kinds::distributedpoddisruptionbudget::{
    decide as decide_distributed_pod_disruption_budget, status as distributed_pod_disruption_budget_status,
};
use berth_kinds::persistentpodstate::{
    Pinning, decide as decide_persistent_pod_state, explain as explain_persistent_pod_state,
};
use berth_kinds::podunavailablebudget::{
    decide as decide_pod_unavailable_budget, status as pod_unavailable_budget_status,
};
use berth_kinds::sidecarset::{decide as decide_sidecar_set, status as sidecar_set_status};
use berth_kinds::statefulset::{decide as decide_stateful_set, status as stateful_set_status};
use berth_runtime::Key;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::NODES;
use berth_webhook::PodWebhook;
use berth_webhook::pods::Added;
use berth_workload::budget::asked::Asked;
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::plan::{Outcome, Plan, Step, Waiting};
use berth_workload::pod::spread::is_constrained;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use crate::controllers::{
    Controller, broadcastjob, cloneset, containerrecreaterequest, daemonset, distributedpoddisruptionbudget,
    persistentpodstate, podunavailablebudget, sidecarset, statefulset,
};
use crate::injection::Injection;
use crate::pod_asks::PodAsks;
use crate::pod_budgets::{Budget, PodBudgets, native_budgets, told_of};
use crate::pod_pinning::PodPinning;
use crate::reads::{Namespaces, Stores};
use crate::resize;

/// Prints the plan for one object.
///
/// # Errors
/// The object does not exist, or the apiserver did not answer.
pub(crate) async fn explain(
    explain: &Explain,
    config: kube::Config,
    (gates, patience): (Gates, Duration),
    pinning: &PodPinning,
    (own_namespace, protected, cluster_name): (&str, &str, &str),
) -> anyhow::Result<()> {
    let is_budget =
        matches!(explain.kind, ExplainKind::Distributedpoddisruptionbudget | ExplainKind::Podunavailablebudget);
    if explain.node.is_some() && !is_budget {
        bail!("--node asks what a drain would get by a budget: explain pub NAME --node NODE, or dpdb NAME");
    }
    let explained = match explain.kind {
        // It is in no namespace, and its pods are in any.
        ExplainKind::Sidecarset => String::new(),
        _ => Namespace::parse(explain.namespace.as_ref().unwrap_or(&config.default_namespace))?.to_string(),
    };
    let client = berth_runtime::client::connect(config, Metrics::new(|_| {}))?;
    let resize = resize::ability(&client, gates).await.context("cannot ask whether the cluster resizes pods")?;
    let namespaces = Namespaces { own: own_namespace.to_owned(), explained };
    let (name, node) = (&*explain.name, explain.node.as_deref());
    let look = Look { client, namespaces, protected, cluster_name, name, node, gates, patience, resize };
    let explained = match explain.kind {
        ExplainKind::Broadcastjob => look.at_broadcast_job().await?,
        ExplainKind::Cloneset => look.at_clone_set().await?,
        ExplainKind::Daemonset => look.at_daemon_set().await?,
        ExplainKind::Containerrecreaterequest => look.at_container_recreate_request().await?,
        ExplainKind::Statefulset => look.at_stateful_set().await?,
        ExplainKind::Distributedpoddisruptionbudget => look.at_distributed_pod_disruption_budget().await?,
        ExplainKind::Podunavailablebudget => look.at_pod_unavailable_budget().await?,
        ExplainKind::Sidecarset => look.at_sidecar_set().await?,
        ExplainKind::Persistentpodstate => look.at_persistent_pod_state(pinning).await?,
    };
    match explain.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explained)?),
        Output::Text => print!("{}", text(&explained)),
    }
    Ok(())
}

/// What is looked at.
struct Look<'a> {
    client: Client,
    namespaces: Namespaces,
    /// Namespaces whose pods get nothing from SidecarSets.
    protected: &'a str,
    /// What other clusters call this one.
    cluster_name: &'a str,
    name: &'a str,
    /// Of which it is told what a drain would get.
    node: Option<&'a str>,
    gates: Gates,
    /// After so long nothing can come of what a budget granted.
    patience: Duration,
    resize: Ability,
}

/// What is printed.
#[derive(Serialize)]
struct Explained {
    /// Kind, namespace and name.
    #[serde(skip)]
    workload: String,
    /// What stands above the lines of its pods.
    #[serde(skip)]
    heading: &'static str,
    /// The cause that holds the workload back: as it shows now, or, where it shows only when something is written, as it was
    /// told when that was tried.
    blocked: Option<Value>,
    #[serde(flatten)]
    plan: Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    drain: Option<NodeDrain>,
}

/// What a drain of a node would get now.
#[derive(Serialize)]
struct NodeDrain {
    node: String,
    /// What becomes of each pod of the budget that is there.
    pods: Vec<Waiting>,
}

impl Look<'_> {
    async fn at_broadcast_job(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = broadcastjob::Reads::new(&mut stores.reader());
        self.read(&stores, || true).await?;
        let Some(job) = reads.jobs.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("BroadcastJob");
        };
        let (snapshot, now) = (broadcastjob::observe(&reads, &job, self.gates), Timestamp::now());
        let plan = decide_broadcast_job(&snapshot, now);
        let status = broadcast_job_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(explained("BroadcastJob", self, plan, &json!(status), &json!(snapshot.job.status)))
    }

    async fn at_clone_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = cloneset::Reads::new(&mut stores.reader());
        self.read(&stores, || reads.clonesets.all().iter().any(|set| is_constrained(&set.0.spec.template))).await?;
        let Some(set) = reads.clonesets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("CloneSet");
        };
        let (snapshot, now) = (cloneset::observe(&reads, &set, self.gates, self.resize), Timestamp::now());
        let plan = decide_clone_set(&snapshot, now);
        let status = clone_set_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(explained("CloneSet", self, plan, &json!(status), &json!(snapshot.set.status)))
    }

    async fn at_daemon_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = daemonset::Reads::new(&mut stores.reader());
        self.read(&stores, || true).await?;
        let Some(set) = reads.sets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("DaemonSet");
        };
        let (snapshot, now) = (daemonset::observe(&reads, &set, self.gates, self.resize, true), Timestamp::now());
        let plan = decide_daemon_set(&snapshot, now);
        let status = daemon_set_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(explained("DaemonSet", self, plan, &json!(status), &json!(snapshot.set.status)))
    }

    async fn at_container_recreate_request(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = containerrecreaterequest::Reads::new(&mut stores.reader());
        self.read(&stores, || false).await?;
        let Some(request) = reads.requests.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("ContainerRecreateRequest");
        };
        let snapshot = reads.observe(&self.client, &request, self.gates).await.context("cannot read the pod")?;
        let now = Timestamp::now();
        let plan = decide_container_recreate_request(&snapshot, now);
        let status = container_recreate_request_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(explained("ContainerRecreateRequest", self, plan, &json!(status), &json!(snapshot.request.status)))
    }

    async fn at_stateful_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = statefulset::Reads::new(&mut stores.reader());
        // A node may be why a pod does not go, or is not scheduled.
        self.read(&stores, || true).await?;
        let Some(set) = reads.sets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("StatefulSet");
        };
        let (snapshot, now) = (statefulset::observe(&reads, &set, self.gates, self.resize), Timestamp::now());
        let plan = decide_stateful_set(&snapshot, now);
        let status = stateful_set_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(explained("StatefulSet", self, plan, &json!(status), &json!(snapshot.set.status)))
    }

    async fn at_sidecar_set(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = sidecarset::Reads::new(&mut stores.reader());
        self.read(&stores, || false).await?;
        let Some(set) = reads.sets.get("", self.name) else { return self.is_missing("SidecarSet") };
        let asks = Arc::<PodAsks>::default();
        // Where the entries are not ours to read there are none, and nothing is added to them.
        asks.connect(PodWebhook::looked_at(Some(Added::read(&self.client).await.unwrap_or_default())));
        let injection = Injection::new(asks, self.gates, &self.namespaces.own, self.protected);
        let (snapshot, now) = (reads.observe(&set, &injection), Timestamp::now());
        let plan = decide_sidecar_set(&snapshot, now);
        let status = sidecar_set_status(&snapshot, &plan, &Outcome::default(), now);
        Ok(explained("SidecarSet", self, plan, &json!(status), &json!(set.0.status)))
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
        Ok(Explained { heading: "Pods:", ..explained("PersistentPodState", self, plan, &Value::Null, &Value::Null) })
    }

    async fn at_pod_unavailable_budget(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = podunavailablebudget::Reads::new(&mut stores.reader());
        // Others may hold the same pods.
        let all = distributedpoddisruptionbudget::Reads::new(&mut stores.reader());
        self.read(&stores, || true).await?;
        let Some(budget) = reads.budgets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("PodUnavailableBudget");
        };
        let budgets = PodBudgets::only_read(self.client.clone(), self.gates, self.cluster_name, self.patience);
        budgets.look_at(&all);
        let Ok(mut snapshot) = reads.observe(&budgets, &budget).await else {
            bail!("the apiserver does not say how many pods are expected: try again")
        };
        // What a running controller has written, its condition tells.
        let conditions = budget.0.status.iter().flat_map(|status| &status.conditions);
        snapshot.asked = Asked::told(conditions);
        let now = Timestamp::now();
        let plan = decide_pod_unavailable_budget(&snapshot, now);
        let status = pod_unavailable_budget_status(&snapshot, now);
        let explained = explained("PodUnavailableBudget", self, plan, &json!(status), &json!(budget.0.status));
        self.with_drains(explained, &budgets, &Budget::Unavailable(budget.0.clone()), &all).await
    }

    async fn at_distributed_pod_disruption_budget(&self) -> anyhow::Result<Explained> {
        let mut stores = Stores::default();
        let reads = distributedpoddisruptionbudget::Reads::new(&mut stores.reader());
        self.read(&stores, || true).await?;
        let Some(budget) = reads.budgets.get(&self.namespaces.explained, self.name) else {
            return self.is_missing("DistributedPodDisruptionBudget");
        };
        let budgets = PodBudgets::only_read(self.client.clone(), self.gates, self.cluster_name, self.patience);
        budgets.look_at(&reads);
        let Ok(mut snapshot) = reads.observe(&budgets, &budget).await else {
            bail!("the apiserver does not say how many pods are expected: try again")
        };
        // Budgets of other namespaces are read by name.
        let Ok(others) = budgets.others(&Budget::Distributed(budget.0.clone())).await else {
            bail!("the apiserver does not say what the budgets of spec.federation have: try again")
        };
        for ((other, brings), member) in snapshot.others.iter_mut().zip(others).zip(&budget.0.spec.federation) {
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
        let explained =
            explained("DistributedPodDisruptionBudget", self, plan, &json!(status), &json!(budget.0.status));
        self.with_drains(explained, &budgets, &Budget::Distributed(budget.0.clone()), &reads).await
    }

    /// Adds what a drain of the node would get, or which nodes could be drained.
    async fn with_drains(
        &self,
        mut explained: Explained,
        budgets: &PodBudgets,
        budget: &Budget,
        reads: &distributedpoddisruptionbudget::Reads,
    ) -> anyhow::Result<Explained> {
        explained.heading = "Pods:";
        if let Some(node) = self.node
            && reads.nodes.get("", node).is_none()
        {
            bail!("there is no node {node:?}; see `kubectl get nodes`");
        }
        let natives = reads.natives.by_index(&native_budgets::BY_NAMESPACE, &self.namespaces.explained);
        let Ok(drains) = budgets.drains(budget, &natives).await else {
            bail!("the apiserver does not say what the budgets of the namespace have: try again")
        };
        match (self.node, drains) {
            (Some(node), Some(drains)) => {
                explained.drain = Some(NodeDrain { node: node.to_owned(), pods: drains.of_node(node).await });
            }
            (Some(_), None) => bail!("it is being deleted, and holds no pods any more"),
            (None, Some(drains)) => {
                let lines = drains.of_nodes().into_iter();
                explained.plan.waiting.extend(lines.map(|reason| Waiting { pod: String::new(), reason }));
            }
            (None, None) => {}
        }
        Ok(explained)
    }

    /// Reads all that the stores are of. Only a template that spreads its pods asks where its nodes are.
    async fn read(&self, stores: &Stores, is_spread: impl Fn() -> bool) -> anyhow::Result<()> {
        const UNREAD: &str = "cannot read the cluster's state";
        stores.look(&self.client, &self.namespaces, |resource| resource != NODES).await.context(UNREAD)?;
        if is_spread() {
            stores.look(&self.client, &self.namespaces, |resource| resource == NODES).await.context(UNREAD)?;
        }
        Ok(())
    }

    fn is_missing(&self, kind: &str) -> anyhow::Result<Explained> {
        let (name, namespace, plural) = (self.name, &self.namespaces.explained, kind.to_lowercase());
        if namespace.is_empty() {
            bail!("there is no {kind} {name:?}; see `kubectl get {plural}s`");
        }
        let group = berth_api::kinds::named(kind).map_or(berth_api::names::GROUP, |kind| kind.group);
        bail!("there is no {kind} {name:?} in namespace {namespace:?}; see `kubectl get {plural}s.{group} -A`")
    }
}

/// The condition `Blocked` is looked for in the status as it would be written, then in the one that was.
fn explained(kind: &str, look: &Look<'_>, plan: Plan, status: &Value, old: &Value) -> Explained {
    let of = |status: &Value| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.find(|c| c["type"] == condition::BLOCKED).cloned()
    };
    let told = of(old).filter(|_| !plan.is_idle());
    let workload = match look.namespaces.explained.as_str() {
        "" => format!("{kind} {}", look.name),
        namespace => format!("{kind} {namespace}/{}", look.name),
    };
    Explained { workload, heading: "Waits:", blocked: of(status).or(told), plan, drain: None }
}

/// The plan in sentences.
fn text(explained: &Explained) -> String {
    let Explained { workload, heading, blocked, plan, drain } = explained;
    let mut lines = vec![workload.clone()];
    let word = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    lines.extend(blocked.as_ref().map(|c| format!("Blocked ({}): {}", word(c, "reason"), word(c, "message"))));
    let now = match (plan.is_idle(), blocked) {
        (false, _) => "Now:",
        (true, Some(_)) => "Now: nothing, as long as that is so.",
        (true, None) => "Now: nothing to do.",
    };
    lines.push(now.to_owned());
    for stage in &plan.stages {
        lines.push(format!("  {} ({})", stage.name, stage.steps.len()));
        lines.extend(stage.steps.iter().map(step));
    }
    if !plan.waiting.is_empty() {
        lines.push((*heading).to_owned());
        for waiting in &plan.waiting {
            let the_workload = format!("the {}", workload.split(' ').next().unwrap_or_default());
            let who = if waiting.pod.is_empty() { &the_workload } else { &waiting.pod };
            lines.push(format!("  {who}: {}", waiting.reason));
        }
    }
    if let Some(NodeDrain { node, pods }) = drain {
        lines.push(format!("A drain of node {node} now, one pod after the other:"));
        if pods.is_empty() {
            lines.push("  none of its pods are there".to_owned());
        }
        lines.extend(pods.iter().map(|Waiting { pod, reason }| format!("  {pod}: {reason}")));
    }
    if let Some(wait) = plan.look_again {
        lines.push(format!("Looks again in {:.1} s, or when something changes.", wait.as_secs_f64()));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn step(step: &Step) -> String {
    let kinds: Vec<_> = step.actions.iter().map(|action| action.deed().to_string()).collect();
    format!("    - {} [{}]", step.reason, kinds.join(", "))
}
