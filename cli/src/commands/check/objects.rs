//! Category `berth-objects`: objects that wait for their users.

use std::rc::Rc;

use berth_api::kinds::{KINDS, Kind};
use berth_api::names::condition::{BLOCKED, ENFORCED, INJECTION_READY};
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::resource::{
    CLAIMS, CLONE_SETS, DEPLOYMENTS, DISTRIBUTED_POD_DISRUPTION_BUDGETS, NODES,
    POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS, PODS, Resource, SIDECAR_SETS,
};
use serde_json::Value;

use super::context::{Context, Unread, full_name};
use super::outcome::{Category, Found, Outcome, Rule};
use crate::budget_limit::{self, has, surges};
use crate::commands::drain::{VOLUMES, has_claims, no_other_node};
use crate::kinds;
use crate::objects::{condition, controller, name, namespace, number, text};

/// The objects of Berth's kinds.
pub(super) static CATEGORY: Category = Category {
    name: "berth-objects",
    rules: &[
        BLOCKED_OBJECTS,
        BUDGETS,
        LIMITS,
        Rule::new("sidecars", |c| Box::pin(sidecars(c))),
    ],
};
/// The same of one namespace, without cluster-scoped kinds.
pub(super) static OF_NAMESPACE: Category = Category {
    name: "berth-objects",
    rules: &[BLOCKED_OBJECTS, BUDGETS, LIMITS],
};
const BLOCKED_OBJECTS: Rule = Rule::new("blocked", |c| Box::pin(blocked(c)));
const BUDGETS: Rule = Rule::new("budgets", |c| Box::pin(budgets(c)));
const LIMITS: Rule = Rule::new("limits", |c| Box::pin(limits(c)));

async fn blocked(context: &Context<'_>) -> Found {
    let (mut all, mut found, mut refused) = (0, Vec::new(), None);
    let in_scope = |kind: &&Kind| kind.namespaced || context.scope().is_empty();
    for kind in KINDS.iter().filter(in_scope) {
        match context.list(Resource::of(kind)).await {
            Ok(objects) => {
                all += objects.len();
                found.extend(with_condition(kind, &objects, BLOCKED, "True"));
            }
            Err(Unread::Forbidden(sentence)) => refused = refused.or(Some(sentence)),
            Err(failed) => return Err(failed),
        }
    }
    Ok(judge_read(judge(all, found, "blocked"), refused))
}

/// An outcome of objects of which the user may not read all.
pub(super) fn judge_read(outcome: Outcome, refused: Option<String>) -> Outcome {
    match (outcome, refused) {
        (Outcome::Ok(_), Some(sentence)) => Outcome::Unknown(sentence),
        (Outcome::Warn(text, hint), Some(sentence)) => {
            Outcome::Warn(format!("{text}, as far as you may read ({sentence})"), hint)
        }
        (outcome, _) => outcome,
    }
}

async fn budgets(context: &Context<'_>) -> Found {
    let own = [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS];
    let (mut all, mut found) = (0, Vec::new());
    for kind in KINDS
        .iter()
        .filter(|kind| own.contains(&Resource::of(kind)))
    {
        let objects = context.list(Resource::of(kind)).await?;
        all += objects.len();
        found.extend(with_condition(kind, &objects, ENFORCED, "False"));
    }
    Ok(judge_all(
        all,
        found,
        ("budget is not enforced", "budgets are not enforced"),
        "all budgets are enforced",
    ))
}

/// Judges the limits of all budgets, also of Kubernetes' own.
async fn limits(context: &Context<'_>) -> Found {
    let scope = context.scope();
    let mut surging = Vec::new();
    for resource in [CLONE_SETS, DEPLOYMENTS] {
        // Without the right, replacements that come first are not known.
        let workloads = context.list_in(resource, scope).await.unwrap_or_default();
        surging.extend(workloads.iter().filter(|one| surges(one)).cloned());
    }
    let (mut all, mut found, mut refused) = (0, Vec::new(), None);
    for (resource, short) in budget_limit::kinds() {
        let budgets = match context.list_in(resource, scope).await {
            Ok(budgets) => budgets,
            Err(Unread::Forbidden(sentence)) => {
                refused = refused.or(Some(sentence));
                continue;
            }
            Err(failed) => return Err(failed),
        };
        all += budgets.len();
        let natives = match resource {
            POD_DISRUPTION_BUDGETS => natives(&budgets),
            _ => Vec::new(),
        };
        for budget in budgets.iter().filter(|one| !is_kept(one)) {
            let why = if resource == POD_DISRUPTION_BUDGETS {
                native_limit(context, budget, &natives, &mut refused).await
            } else {
                own_limit(context, (resource, budget), &surging).await
            };
            let (name, namespace) = (name(budget), namespace(budget));
            let command = format!("kubectl berth why {short}/{name} -n {namespace}");
            let kind = resource.kind;
            found.extend(why.map(|why| format!("{kind} {namespace}/{name}: {why}: {command}")));
        }
    }
    let outcome = judge_all(
        all,
        found,
        ("budget lets no pod go", "budgets let no pod go"),
        "all budgets may let pods go",
    );
    Ok(judge_read(outcome, refused))
}

/// Whether Berth keeps a budget, which has the limit of one of Berth's own.
pub(super) fn is_kept(budget: &Value) -> bool {
    controller(budget)
        .is_some_and(|owner| text(owner, "/apiVersion").starts_with(berth_api::names::POLICY_GROUP))
}

fn natives(budgets: &[Value]) -> Vec<NativeBudget> {
    let natives = budgets
        .iter()
        .map(|budget| serde_json::from_str(&budget.to_string()));
    natives.filter_map(Result::ok).collect()
}

/// Why one of Berth's budgets never lets a pod go.
async fn own_limit(
    context: &Context<'_>,
    (resource, budget): (Resource, &Value),
    surging: &[Value],
) -> Option<String> {
    budget_limit::never(resource, budget, &[], None)?;
    // Without the rights, where replacements may run is not known.
    let of = async |resource: Resource| {
        let namespace = if resource.namespaced {
            namespace(budget)
        } else {
            ""
        };
        context
            .list_in(resource, namespace)
            .await
            .unwrap_or_default()
    };
    let (pods, nodes) = (of(PODS).await, of(NODES).await);
    let pods: Vec<_> = pods.iter().filter(|pod| has(budget, pod)).collect();
    let has_claims = pods.iter().any(|pod| has_claims(pod));
    let (claims, volumes) = match has_claims {
        true => (of(CLAIMS).await, of(VOLUMES).await),
        false => (Rc::default(), Rc::default()),
    };
    let pending = no_other_node(&pods, &nodes, &claims, &volumes);
    budget_limit::never(resource, budget, surging, pending.as_deref())
}

/// Why one of Kubernetes' own budgets never lets a pod go. Pods are read only if they decide.
async fn native_limit(
    context: &Context<'_>,
    budget: &Value,
    natives: &[NativeBudget],
    refused: &mut Option<String>,
) -> Option<String> {
    let of = namespace(budget);
    let beside = natives.iter().filter(|one| *one.metadata.namespace == *of);
    let beside: Vec<_> = beside.cloned().collect();
    let is_failed = |one: &NativeBudget| one.status.sync_failure.is_some();
    let mut pods = Rc::default();
    if beside.len() > 1 || beside.iter().any(is_failed) {
        match context.list_in(PODS, of).await {
            Ok(all) => pods = all,
            Err(Unread::Forbidden(why) | Unread::Failed(why)) => *refused = Some(why),
        }
    }
    judge_native(budget, &beside, &pods)
}

/// Why one of Kubernetes' own budgets never lets a pod go, by all budgets and pods beside it.
pub(super) fn judge_native(
    budget: &Value,
    beside: &[NativeBudget],
    pods: &[Value],
) -> Option<String> {
    let typed = beside
        .iter()
        .find(|one| *one.metadata.name == *name(budget));
    let uncounted = |typed| {
        let pods = budget_limit::number_of_pods(typed, pods);
        Some(format!("it {}", budget_limit::uncounted(typed, pods)?))
    };
    typed
        .and_then(uncounted)
        .or_else(|| budget_limit::never(POD_DISRUPTION_BUDGETS, budget, &[], None))
        .or_else(|| budget_limit::doubled(typed?, beside, pods))
}

async fn sidecars(context: &Context<'_>) -> Found {
    let sets = context.list(SIDECAR_SETS).await?;
    let found: Vec<_> = sets
        .iter()
        .filter_map(|set| {
            let (why, name) = (lacking(set)?, name(set));
            Some(format!(
                "SidecarSet {name}: {why}: kubectl berth why sidecarset/{name}"
            ))
        })
        .collect();
    Ok(judge_all(
        sets.len(),
        found,
        ("SidecarSet misses pods", "SidecarSets miss pods"),
        "all SidecarSets reach their pods",
    ))
}

/// Why pods that a SidecarSet selects lack its containers; `None` if none does, as without pods.
pub(super) fn lacking(set: &Value) -> Option<String> {
    let count = |field: &str| number(set, &format!("/status/injection/{field}"));
    let (selected, lack) = (count("selected"), count("missed") + count("refused"));
    if selected == 0 {
        return None;
    }
    if lack > 0 {
        return Some(format!(
            "{lack} of {selected} pods that it selects lack its containers"
        ));
    }
    let ready = condition(set, INJECTION_READY).filter(|one| one["status"] == "False")?;
    Some(format!(
        "new pods do not get its containers ({}): {}",
        text(ready, "/reason"),
        text(ready, "/message")
    ))
}

/// A warning that counts the objects found, in singular or plural; otherwise the text for none.
fn judge_all(all: usize, found: Vec<String>, (one, many): (&str, &str), none: &str) -> Outcome {
    match found.len() {
        0 => Outcome::Ok(format!("{none} ({all})")),
        1 => Outcome::Warn(format!("1 {one}, of {all}"), found.concat()),
        some => Outcome::Warn(format!("{some} {many}, of {all}"), found.join("\n")),
    }
}

pub(super) fn judge(all: usize, found: Vec<String>, state: &str) -> Outcome {
    match found.len() {
        0 => Outcome::Ok(format!("none of {all} objects is {state}")),
        1 => Outcome::Warn(format!("1 of {all} objects is {state}"), found.join("\n")),
        some => Outcome::Warn(
            format!("{some} of {all} objects are {state}"),
            found.join("\n"),
        ),
    }
}

/// A line for each object whose condition has this status, with a command that says more.
pub(super) fn with_condition(
    kind: &Kind,
    objects: &[Value],
    type_: &str,
    status: &str,
) -> Vec<String> {
    let found = objects.iter().filter_map(|object| {
        let found = condition(object, type_).filter(|one| one["status"] == status)?;
        let reason = text(found, "/reason");
        let command = command(kind, object);
        Some(format!(
            "{} {} {reason}: {command}",
            kind.kind,
            full_name(object)
        ))
    });
    found.collect()
}

fn command(kind: &Kind, object: &Value) -> String {
    let singular = kind.kind.to_lowercase();
    let has_plan = kinds::parse(&singular).is_ok_and(|known| known.has_plan);
    let command = if has_plan {
        format!("kubectl berth why {singular}/{}", name(object))
    } else {
        format!(
            "kubectl get {}.{} {} -o yaml",
            kind.plural,
            kind.group,
            name(object)
        )
    };
    match namespace(object) {
        "" => command,
        namespace => format!("{command} -n {namespace}"),
    }
}
