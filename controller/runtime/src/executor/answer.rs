//! The meaning of the server's answers.

use berth_workload::plan::{Failure, Verb};
use serde::Deserialize;

use super::request::{JSON_PATCH, Kind, Request};
use crate::client::Failed;
use crate::expectations::Ticket;
use crate::object::{CONFIG_MAPS, CONTROLLER_REVISIONS};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Written {
    metadata: Meta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

/// Whether the read object is the expected one and is not being deleted.
pub(super) fn confirmed(request: &Request, body: &[u8]) -> Result<(), Failed> {
    let conflict = |message| Err(refused("Conflict", message));
    let (kind, name) = (request.write.resource.kind, &request.name);
    match serde_json::from_slice::<Written>(body) {
        Ok(Written { metadata }) if metadata.uid != request.uid => conflict(replaced(request)),
        Ok(Written { metadata }) if metadata.deletion_timestamp.is_some() => {
            conflict(format!("{kind} {name:?} is being deleted"))
        }
        Ok(_) => Ok(()),
        Err(error) => conflict(format!("{kind} {name:?} cannot be read: {error}")),
    }
}

/// A conflict that the executor found in an answer: nothing was done.
fn refused(reason: &str, message: String) -> Failed {
    Failed {
        code: 409,
        reason: reason.to_owned(),
        message,
        not_done: true,
        ..Failed::default()
    }
}

fn replaced(request: &Request) -> String {
    format!(
        "{} {:?} is another object now, not the one with the uid {}",
        request.write.resource.kind, request.name, request.uid
    )
}

/// Confirms the expectation with the server's answer.
pub(super) fn settle(request: &Request, ticket: Option<Ticket>, body: &[u8]) {
    let Some(ticket) = ticket else { return };
    if matches!(request.kind, Kind::Delete | Kind::Evict) {
        return ticket.deleted(&request.uid);
    }
    match serde_json::from_slice::<Written>(body) {
        Ok(Written {
            metadata:
                Meta {
                    uid,
                    resource_version,
                    ..
                },
        }) => ticket.written(&uid, &resource_version),
        // The ticket is dropped, so that the write is in doubt until the object is read.
        Err(error) => {
            tracing::warn!(action = %request.write, object = request.name, %error, "the answer names no object")
        }
    }
}

/// The reason of an answer if an object of this name exists already.
const TAKEN: &str = "AlreadyExists";

/// The metadata of an existing object that says which owner it has. The rest, sometimes a whole
/// template, is skipped.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Existing {
    metadata: ExistingMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ExistingMetadata {
    owner_references: Option<Vec<Reference>>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Reference {
    api_version: String,
    kind: String,
    uid: String,
    controller: Option<bool>,
}

/// Handles an answer that the object to create exists already. That is success if it has the same
/// owner, because an earlier answer was lost.
pub(super) fn existing(request: &Request, object: &Existing) -> Result<(), Failed> {
    let (kind, name) = (request.write.resource.kind, &request.name);
    let owner = controller(object);
    let wanted = Existing::deserialize(&request.body).unwrap_or_default();
    if owner.is_none() || owner != controller(&wanted) {
        let uid = owner.map(|(_, _, uid)| uid);
        let message = format!(
            "{kind} {name:?} exists and {}: rename or delete it",
            describe_owner(uid)
        );
        return Err(refused(TAKEN, message));
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Err(refused(
            "Conflict",
            format!("{kind} {name:?} exists and is being deleted"),
        ));
    }
    Ok(())
}

/// Group, kind and uid of the owner that controls the object. The owner is in the namespace of the
/// object.
fn controller(object: &Existing) -> Option<(&str, &str, &str)> {
    let owner = object
        .metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))?;
    let group = owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    Some((group, &owner.kind, &owner.uid))
}

/// The part of a message that says which owner controls an object, if any. `owner` is its uid.
fn describe_owner(owner: Option<&str>) -> String {
    owner.map_or_else(
        || "has no controller".to_owned(),
        |uid| format!("belongs to an owner with the uid {uid}"),
    )
}

/// The types of causes by which the apiserver, since Kubernetes 1.36, says that no resize of the
/// pod can succeed on its node.
const INFEASIBLE: [&str; 2] = ["NodeCapacity", "UnsupportedPlatform"];

/// Whether a disruption budget refuses, and not an overloaded server.
pub(super) fn is_of_budget(failed: &Failed) -> bool {
    failed
        .causes
        .iter()
        .any(|(reason, _)| reason == "DisruptionBudget")
}

/// The failure of a request for the plan's outcome: whether it is permanent, or only says that the
/// object has changed since the decision.
pub(super) fn failure(request: &Request, failed: Failed) -> Failure {
    let taken = request.kind == Kind::Create && failed.reason == TAKEN;
    let (mut code, mut message) = (failed.code, failed.message);
    let is_replaced = request.kind == Kind::Patch
        && failed
            .causes
            .iter()
            .any(|(field, _)| field == "metadata.uid");
    if is_replaced {
        // The server reports a wrong uid in a patch as an attempt to change the uid.
        code = 409;
        message = replaced(request);
    } else if request.kind == Kind::DryRun && !failed.causes.is_empty() {
        message = template_errors(&failed.causes);
    }
    let passes =
        code == 403 && (message.contains("exceeded quota") || message.contains("being terminated"));
    // The patch first tests the ConfigMap's owner. A wrong owner is the earlier pod of this name,
    // whose ConfigMap is not collected yet.
    let is_of_another =
        code == 422 && request.write.resource == CONFIG_MAPS && request.content == JSON_PATCH;
    // When a disruption budget will allow the eviction is unknown. The caller decides when to try
    // again.
    let is_protected = request.kind == Kind::Evict
        && (code == 429 || message.contains("more than one PodDisruptionBudget"));
    let permanent = (matches!(code, 400 | 403 | 422) && !passes && !is_of_another) || is_protected;
    // The next decision gives the revision another name, so that the conflict is no failure.
    let is_renamed = taken && request.write.resource == CONTROLLER_REVISIONS;
    let outdated = is_of_another
        || is_renamed
        || matches!(code, 404 | 409)
            && !matches!(request.kind, Kind::Create | Kind::Ensure | Kind::DryRun);
    let infeasible = request.write.verb == Verb::Resize
        && code == 403
        && failed
            .causes
            .iter()
            .any(|(type_, _)| INFEASIBLE.contains(&&**type_));
    let (namespace, object) = (request.namespace.clone(), request.name.clone());
    Failure {
        write: request.write,
        namespace,
        object,
        message,
        code,
        permanent,
        outdated,
        taken,
        infeasible,
    }
}

/// The apiserver's field errors, with the fields named as in the workload.
fn template_errors(causes: &[(String, String)]) -> String {
    let mut errors: Vec<_> = causes
        .iter()
        .map(|(field, message)| format!("spec.{field}: {message}"))
        .collect();
    errors.dedup();
    errors.join("; ")
}

#[cfg(test)]
mod tests;
