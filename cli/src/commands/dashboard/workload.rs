//! One workload: its pods by revision, its plan, its revisions and its events.

use std::collections::BTreeMap;

use berth_api::kinds::broadcastjob::names::label::BROADCASTJOB_CONTROLLER_UID;
use berth_workload::objects::resource::{EVENTS, PODS, Resource};
use berth_workload::update::revision::short;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::objects::{self, items, number, text};
use crate::session::Session;

use super::answers::Refused;
use super::planner::PlanOf;
use super::pods::{OfRevision, by_revision};
use super::read::{Listed, State, is_owned, of_namespace, read, revisions, template};
use super::routes::{BROADCAST_JOBS, Key};
use super::{actions, changes, summary};

/// The most events that are shown.
const MOST_EVENTS: u32 = 50;

/// The state of a workload.
pub(super) async fn show(state: &State, key: &Key) -> Result<Value, Refused> {
    let session = of_namespace(&state.session, &key.namespace);
    let object = read(&session, key).await?;
    let plan = state.planner.plan(PlanOf {
        kind: key.resource.plural,
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    });
    let (pods, revisions, events, plan) = futures::join!(
        pods(&session, key.resource, &object),
        revisions(&session, &object),
        events(&session, &object),
        plan,
    );
    let mut unread = Vec::new();
    let mut known =
        |list: anyhow::Result<Result<Vec<Value>, String>>| -> Result<Vec<Value>, Refused> {
            Ok(list?.unwrap_or_else(|sentence| {
                unread.push(sentence);
                Vec::new()
            }))
        };
    let (pods, revisions, events) = (known(pods)?, known(revisions)?, known(events)?);
    let plan = plan.unwrap_or_else(|error| json!({"error": error}));
    let waits: BTreeMap<_, _> = items(&plan, "/waiting")
        .map(|one| (text(one, "/pod"), text(one, "/reason")))
        .collect();
    Ok(json!({
        "summary": summary::of(key.resource, &object),
        "strategy": summary::strategy(key.resource, &object),
        "conditions": object.pointer("/status/conditions"),
        "subsets": object.pointer("/status/subsetStatuses"),
        "revisions": history(&object, &revisions, by_revision(&pods, &waits)),
        "plan": plan,
        "events": events.iter().map(event).collect::<Vec<_>>(),
        "actions": actions::possible(key.resource),
        "unread": unread,
    }))
}

/// The pods that a workload owns; those of a UnitedDeployment are owned by its subsets. Pods of a
/// SidecarSet belong to others.
async fn pods(session: &Session, resource: Resource, object: &Value) -> Listed {
    let uid = text(object, "/metadata/uid");
    let selector = match resource {
        BROADCAST_JOBS => Some(format!("{BROADCASTJOB_CONTROLLER_UID}={uid}")),
        _ => objects::selector(object),
    };
    let Some(selector) = selector.filter(|_| resource.namespaced) else {
        return Ok(Ok(Vec::new()));
    };
    let mut listed = session
        .list_if_allowed(PODS, &session.namespace, &selector)
        .await?;
    let has_subsets = object.pointer("/spec/topology").is_some();
    if let Ok(pods) = &mut listed {
        pods.retain(|pod| has_subsets || is_owned(pod, uid));
    }
    Ok(listed)
}

/// The newest events about a workload itself.
async fn events(session: &Session, object: &Value) -> Listed {
    let of = format!("involvedObject.uid={}", text(object, "/metadata/uid"));
    let parameters = ListParams::default().fields(&of).limit(MOST_EVENTS);
    // Events about cluster-scoped objects are in the namespace `default`.
    let namespace = if session.namespace.is_empty() {
        "default"
    } else {
        &session.namespace
    };
    let api = session.api_in(EVENTS, namespace);
    let listed = match session.within(api.list(&parameters)).await? {
        Ok(listed) => listed,
        Err(kube::Error::Api(refused)) if refused.code == 403 => {
            return Ok(Err(refused.message.clone()));
        }
        Err(error) => return Err(error.into()),
    };
    let mut events = Vec::new();
    for one in listed.items {
        events.push(serde_json::to_value(one)?);
    }
    events.sort_by(|one, other| last_seen(other).cmp(last_seen(one)));
    Ok(Ok(events))
}

fn last_seen(event: &Value) -> &str {
    let times = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let times = times.map(|at| text(event, at));
    times
        .into_iter()
        .find(|time| !time.is_empty())
        .unwrap_or_default()
}

fn event(event: &Value) -> Value {
    let count = number(event, "/count").max(number(event, "/series/count"));
    json!({
        "warning": event["type"] == "Warning",
        "reason": event["reason"],
        "message": text(event, "/message"),
        "count": count.max(1),
        "last": last_seen(event),
    })
}

/// The revisions with their pods, and how each differs from the one before. The pods of no known
/// revision are last.
fn history(
    object: &Value,
    revisions: &[Value],
    mut pods: BTreeMap<String, OfRevision>,
) -> Vec<Value> {
    let update = [
        text(object, "/status/updateRevision"),
        text(object, "/status/updatedRevision"),
    ];
    let current = text(object, "/status/currentRevision");
    let mut lines = Vec::new();
    for (at, one) in revisions.iter().enumerate() {
        let name = objects::name(one);
        let is = |named: &str| !named.is_empty() && short(named) == short(name);
        let own = template(one);
        let before = revisions.get(at + 1).map(template);
        lines.push(json!({
            "name": name,
            "hash": short(name),
            "revision": number(one, "/revision"),
            "created": text(one, "/metadata/creationTimestamp"),
            "cause": one["metadata"]["annotations"]["kubernetes.io/change-cause"],
            "isUpdate": update.iter().any(|named| is(named)),
            "isCurrent": is(current),
            "changes": before.map(|before| changes::between(&before, &own)),
            "pods": pods.remove(short(name)).unwrap_or_default().data(),
            "template": own,
        }));
    }
    for (hash, of) in pods {
        lines.push(json!({"hash": hash, "pods": of.data()}));
    }
    lines
}
