//! Category `berth-objects`: objects that wait for their users.

use berth_api::kinds::{KINDS, Kind};
use berth_api::names::condition::{BLOCKED, ENFORCED, INJECTION_READY};
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS, Resource, SIDECAR_SETS,
};
use serde_json::Value;

use super::context::{Context, Unread, full_name};
use super::outcome::{Category, Found, Outcome, Rule, some_lines};
use crate::kinds;
use crate::objects::{condition, name, namespace, text};

/// The objects of Berth's kinds.
pub(super) static CATEGORY: Category = Category {
    name: "berth-objects",
    rules: &[
        Rule::new("blocked", |c| Box::pin(blocked(c))),
        Rule::new("budgets", |c| Box::pin(budgets(c))),
        Rule::new("sidecars", |c| Box::pin(sidecars(c))),
    ],
};

async fn blocked(context: &Context<'_>) -> Found {
    let (mut all, mut blocked, mut refused) = (0, Vec::new(), None);
    for kind in &KINDS {
        match context.list(Resource::of(kind)).await {
            Ok(objects) => {
                all += objects.len();
                blocked.extend(with_condition(kind, &objects, BLOCKED, "True"));
            }
            Err(Unread::Forbidden(sentence)) => refused = refused.or(Some(sentence)),
            Err(failed) => return Err(failed),
        }
    }
    Ok(match refused {
        Some(sentence) if blocked.is_empty() => Outcome::Unknown(sentence),
        _ => judge(all, blocked, "blocked"),
    })
}

async fn budgets(context: &Context<'_>) -> Found {
    let kinds = [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS];
    with_false(context, &kinds, ENFORCED, "budget", "enforced").await
}

async fn sidecars(context: &Context<'_>) -> Found {
    with_false(
        context,
        &[SIDECAR_SETS],
        INJECTION_READY,
        "SidecarSet",
        "injected",
    )
    .await
}

/// Judges the objects of these kinds whose condition is False.
async fn with_false(
    context: &Context<'_>,
    resources: &[Resource],
    type_: &str,
    noun: &str,
    state: &str,
) -> Found {
    let (mut all, mut found) = (0, Vec::new());
    for kind in KINDS
        .iter()
        .filter(|kind| resources.contains(&Resource::of(kind)))
    {
        let objects = context.list(Resource::of(kind)).await?;
        all += objects.len();
        found.extend(with_condition(kind, &objects, type_, "False"));
    }
    Ok(match found.len() {
        0 => Outcome::Ok(format!("all {noun}s are {state} ({all})")),
        _ => Outcome::Warn(
            format!("{} of {all} {noun}s are not {state}", found.len()),
            some_lines(found),
        ),
    })
}

pub(super) fn judge(all: usize, found: Vec<String>, state: &str) -> Outcome {
    match found.len() {
        0 => Outcome::Ok(format!("none of {all} objects is {state}")),
        1 => Outcome::Warn(format!("1 of {all} objects is {state}"), some_lines(found)),
        some => Outcome::Warn(
            format!("{some} of {all} objects are {state}"),
            some_lines(found),
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
