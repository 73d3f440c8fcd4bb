//! What the server's answers mean.

use berth_workload::plan::Failure;
use serde::Deserialize;
use serde_json::Value;

use super::write::{Kind, Write};
use crate::client::Failed;
use crate::expectations::Ticket;

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
}

/// Notes what the server did, so that it is waited for.
pub(super) fn settle(write: &Write, ticket: Option<Ticket>, body: &[u8]) {
    let Some(ticket) = ticket else { return };
    if write.kind == Kind::Delete {
        return ticket.deleted(&write.uid);
    }
    match serde_json::from_slice::<Written>(body) {
        Ok(Written { metadata: Meta { uid, resource_version } }) => ticket.written(&uid, &resource_version),
        // Dropped: in doubt until the object is read.
        Err(error) => tracing::warn!(action = write.action, object = write.name, %error, "the answer names no object"),
    }
}

/// An object that was to be created exists. That is success if it belongs to the same owner: an earlier answer was lost.
pub(super) fn existing(write: &Write, object: &Value) -> Result<(), Failed> {
    let (kind, name) = (write.resource.kind, &write.name);
    let refuse = |message: String| {
        Err(Failed { code: 409, reason: "AlreadyExists".to_owned(), message, not_done: true, ..Failed::default() })
    };
    let owner = controller(object);
    if owner.is_none() || owner != controller(&write.body) {
        return refuse(format!("{kind} {name:?} exists and belongs to {}: rename or delete it", describe(owner)));
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return refuse(format!("{kind} {name:?} exists and is being deleted"));
    }
    Ok(())
}

fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

fn describe(owner: Option<&str>) -> String {
    owner.map_or_else(|| "nobody".to_owned(), |uid| format!("an owner with the uid {uid}"))
}

/// A failure as a plan's outcome tells it.
pub(super) fn failure(write: &Write, failed: Failed) -> Failure {
    let (mut code, mut message) = (failed.code, failed.message);
    let replaced = write.kind == Kind::Patch && failed.causes.iter().any(|(field, _)| field == "metadata.uid");
    if replaced {
        // The server words a wrong uid in a patch as an attempt to change it.
        code = 409;
        message = format!(
            "{} {:?} is another object now, not the one with the uid {}",
            write.resource.kind, write.name, write.uid
        );
    } else if write.kind == Kind::DryRun && !failed.causes.is_empty() {
        message = template_errors(&failed.causes);
    }
    let passes = code == 403 && (message.contains("exceeded quota") || message.contains("being terminated"));
    // Its first line asks whose ConfigMap it is: that of the pod of this name before it has not been collected yet.
    let is_of_another = code == 422 && write.action == "OpenBarrier";
    let permanent = matches!(code, 400 | 403 | 422) && !passes && !is_of_another;
    let outdated =
        is_of_another || matches!(code, 404 | 409) && !matches!(write.kind, Kind::Create | Kind::Ensure | Kind::DryRun);
    Failure { action: write.action, object: write.name.clone(), message, code, permanent, outdated }
}

/// The apiserver's field errors, with the fields named as in the workload.
fn template_errors(causes: &[(String, String)]) -> String {
    let mut errors: Vec<_> = causes.iter().map(|(field, message)| format!("spec.{field}: {message}")).collect();
    errors.dedup();
    errors.join("; ")
}

#[cfg(test)]
mod tests;
