//! The way of a change to the pods, by the revisions that they have.

use berth_api::name::Name;
use berth_workload::objects::resource::{
    CLONE_SETS, CONTROLLER_REVISIONS, Resource, STATEFUL_SETS,
};
use berth_workload::update::revision::Revision;
use serde_json::Value;

use crate::in_place::{self, Cluster};
use crate::objects;
use crate::session::Session;

/// The object with the template of its current revision, if pods have that and not the present
/// template.
pub(super) async fn current(
    session: &Session,
    resource: Resource,
    object: &Value,
) -> Option<Value> {
    if ![CLONE_SETS, STATEFUL_SETS].contains(&resource) {
        return None;
    }
    let status = |field: &str| objects::text(object, &format!("/status/{field}"));
    let name = Name::parse(status("currentRevision")).ok()?;
    if name.as_str() == status("updateRevision") {
        return None;
    }
    let revisions = session.api(CONTROLLER_REVISIONS);
    let revision = session
        .within(revisions.get(name.as_str()))
        .await
        .ok()?
        .ok()?;
    let revision = serde_json::to_value(revision).ok()?;
    let revision: Revision = serde_json::from_value(revision).ok()?;
    let mut current = object.clone();
    *current.pointer_mut("/spec/template")? = revision.template();
    Some(current)
}

/// Sentences on the way to the pods: of the present template, and of the current revision if that
/// is another.
pub(super) fn of(
    resource: Resource,
    (old, current): (&Value, Option<&Value>),
    new: &Value,
    cluster: &Cluster,
) -> anyhow::Result<Vec<String>> {
    let way = in_place::way(resource, old, new, cluster)?.to_string();
    let Some(current) = current else {
        return Ok(vec![way]);
    };
    let other = in_place::way(resource, current, new, cluster)?.to_string();
    let has_updated = objects::number(old, "/status/updatedReplicas") > 0;
    if !has_updated || way == other {
        return Ok(vec![other]);
    }
    let revision = objects::text(old, "/status/currentRevision");
    Ok(vec![
        format!("updated pods: {way}"),
        format!("pods of revision {revision}: {other}"),
    ])
}

#[cfg(test)]
mod tests;
