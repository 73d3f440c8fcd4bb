//! The object to explain, and the inputs of its controller.

use std::sync::Arc;

use anyhow::{Context, bail};
use berth_api::commands;
use berth_runtime::events::Owner;
use berth_runtime::object::NODES;
use berth_runtime::{Object, Resource};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{CONTROLLER_REVISIONS, PODS};
use berth_workload::plan::{Outcome, Plan, Waiting};
use berth_workload::update::inplace::resize::Ability;
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};

use super::printed::{self, Explained, NodeDrain};
use crate::budgets::{Budget, BudgetStores, PodBudgets};
use crate::kinds::Kinds;
use crate::reconcile::controller::Controller;
use crate::settings::published::Published;
use crate::stores::reads::{Namespaces, Stores};
use crate::stores::unread::Unread;
use crate::stores::watched::{Watched, by_namespace};

/// A controller that can print its plan for an object instead of carrying it out.
pub(crate) trait Explains: Controller {
    /// The kind of the object.
    type Object: CustomResourceExt;
    /// Whether `--node` shows the result of a drain.
    const OF_NODES: bool = false;
    /// Whether a plan depends on budgets, so that they are read.
    const OF_BUDGETS: bool = true;

    /// Whether no plan can be made without the nodes.
    const NEEDS_NODES: bool = false;

    /// Whether the plan depends on nodes, by the objects that were read so far.
    fn reads_nodes(&self) -> bool {
        true
    }

    /// The plan for the object, and what it waits for.
    ///
    /// # Errors
    /// The object does not exist, or the apiserver did not answer.
    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained>;
}

/// The object to explain.
pub(crate) struct Look<'a> {
    pub(crate) client: Client,
    pub(crate) namespaces: Namespaces,
    /// The settings of the controller.
    pub(crate) settings: &'a Published,
    pub(crate) name: &'a str,
    /// The node for which the result of a drain is shown.
    pub(crate) node: Option<&'a str>,
    pub(crate) gates: Gates,
    pub(crate) resize: Ability,
}

impl Look<'_> {
    /// The stores of budgets of the enabled kinds.
    fn budget_stores(&self, stores: &mut Stores) -> BudgetStores {
        let mut kinds = Kinds::parse(&self.settings.custom_resource_enable);
        BudgetStores::new(&mut stores.reader(), |kind| kinds.has(kind))
    }

    /// The budgets that were read. Reservations are made in copies.
    pub(crate) fn budgets(&self, stores: &BudgetStores) -> Arc<PodBudgets> {
        PodBudgets::only_read(
            self.client.clone(),
            self.gates,
            Some(stores.clone()),
            (&self.settings.cluster_name, self.settings.patience(), true),
        )
    }

    /// The plan as the controller carries it out now, in which steps wait that a budget refuses;
    /// and the results of these steps.
    pub(crate) async fn carried_out<T: Object>(
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

    pub(crate) fn explained<C: Controller>(
        &self,
        plan: Plan,
        status: &Value,
        old: &Value,
    ) -> Explained {
        let name = match self.namespaces.explained.as_str() {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        };
        Explained::new((C::RESOURCE.kind, name), plan, status, old)
    }

    /// Adds the result of a drain of the node, or which nodes could be drained.
    pub(crate) async fn with_drains(
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

    pub(crate) fn is_missing<C: Controller>(&self) -> anyhow::Result<Explained> {
        let (name, namespace) = (self.name, &self.namespaces.explained);
        let Resource {
            kind,
            plural,
            group,
            ..
        } = C::RESOURCE;
        if namespace.is_empty() {
            bail!(
                "there is no {kind} {name:?}; see {}",
                commands::list(plural, "")
            );
        }
        let everywhere = commands::list_everywhere(&format!("{plural}.{group}"));
        bail!("there is no {kind} {name:?} in namespace {namespace:?}; see {everywhere}")
    }

    /// Reads the inputs of the controller, and lets it explain the object.
    ///
    /// # Errors
    /// The object does not exist, or the apiserver did not answer.
    pub(crate) async fn explain<C: Explains>(&self) -> anyhow::Result<Explained> {
        const UNREAD: &str = "cannot read the cluster's state";
        if self.node.is_some() && !C::OF_NODES {
            bail!(
                "--node shows what a drain of a node would get from a budget: name a podunavailablebudget or a distributedpoddisruptionbudget"
            );
        }
        let mut stores = Stores::default();
        let controller = C::new(&mut stores.reader());
        let mut unread = Stores::default();
        let of_budgets = if C::OF_BUDGETS {
            &mut stores
        } else {
            &mut unread
        };
        let budgets = self.budget_stores(of_budgets);
        let look = |of_nodes: bool| {
            let resources = move |resource| (resource == NODES) == of_nodes;
            stores.look(&self.client, &self.namespaces, resources)
        };
        let mut unread = look(false).await.context(UNREAD)?;
        if controller.reads_nodes() {
            let nodes = look(true).await.context(UNREAD)?;
            if !nodes.is_empty() {
                assume_nodes(&mut stores);
            }
            unread.extend(nodes);
        }
        let is_needed = |one: &&Unread| {
            [C::RESOURCE, PODS, CONTROLLER_REVISIONS].contains(&one.resource)
                || (one.resource == NODES && C::NEEDS_NODES)
        };
        if let Some(needed) = unread.iter().find(is_needed) {
            return Err(needed.no_plan().into());
        }
        let explained = controller.explain(self, &budgets).await?;
        Ok(Explained {
            unread: unread.iter().map(Unread::to_string).collect(),
            ..explained
        })
    }
}

/// Adds a ready node for each pod that is bound to one, for a client that may not read nodes:
/// otherwise decisions would take the nodes for gone.
fn assume_nodes(stores: &mut Stores) {
    let mut reader = stores.reader();
    let (nodes, pods) = (reader.read::<Watched<Node>>(), reader.read::<Pod>());
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    for pod in pods.all() {
        let node = json!({"metadata": {"name": pod.spec.node_name}, "status": ready});
        if !pod.spec.node_name.is_empty()
            && let Ok(node) = serde_json::from_value(node)
        {
            nodes.apply(Watched(Arc::new(node)));
        }
    }
}
