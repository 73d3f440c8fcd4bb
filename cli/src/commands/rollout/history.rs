//! `kubectl berth rollout history`: the revisions of a workload's template.

use std::sync::Arc;

use anyhow::{Context, bail};
use berth_workload::objects::resource::CONTROLLER_REVISIONS;
use berth_workload::update::revision::{self, Revision};
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::target::{ObjectArgs, Target};
use crate::exit::Exit;
use crate::objects::{controller, items, name, namespace, number, selector, text};
use crate::session::Session;
use crate::text::{age_of, clean_lines, table};
use crate::write::title;

/// The object, and the revision to print.
#[derive(Debug, Args)]
pub struct History {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArgs,
    /// Print the pod template of this revision.
    #[arg(long, value_name = "N")]
    pub revision: Option<i64>,
}

impl History {
    /// Prints the table, or the template of a revision.
    ///
    /// # Errors
    /// The object or the revision does not exist, the user may not read it, or the apiserver did
    /// not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let target = Target::parse(&self.object.object)?;
        if !target.kind.has_history() {
            return Err(target.lacks("history").into());
        }
        let object = target.read(session).await?;
        let all = revisions(session, &object).await?;
        if let Some(wanted) = self.revision {
            let template = template_of(find(&all, wanted, &target)?)?;
            anstream::print!("{}", clean_lines(&serde_saphyr::to_string(&template)?));
            return Ok(Exit::Done);
        }
        anstream::println!(
            "{}",
            clean_lines(&title(target.named.resource, &target.name))
        );
        let header = ["REVISION", "CHANGE-CAUSE", "IMAGES", "AGE", "STATE"];
        let now = Timestamp::now();
        let rows = all.iter().map(|revision| row(revision, &object, now));
        anstream::println!("{}", table(&header, rows));
        Ok(Exit::Done)
    }
}

/// The ControllerRevisions that the object owns, oldest first.
///
/// # Errors
/// The user may not list them, or the apiserver did not answer.
pub async fn revisions(session: &Session, object: &Value) -> anyhow::Result<Vec<Value>> {
    let selector = selector(object).with_context(|| format!("{} has no selector", name(object)))?;
    let listed = session
        .list(CONTROLLER_REVISIONS, namespace(object), &selector)
        .await?;
    Ok(owned(listed, text(object, "/metadata/uid")))
}

fn owned(listed: Vec<Value>, uid: &str) -> Vec<Value> {
    let is_owned = |one: &Value| controller(one).is_some_and(|owner| text(owner, "/uid") == uid);
    let mut owned: Vec<_> = listed.into_iter().filter(is_owned).collect();
    owned.sort_by(|a, b| place(a).cmp(&place(b)));
    owned
}

/// The place in the history, as the controller sorts it.
fn place(revision: &Value) -> (i64, &str, &str) {
    let created = text(revision, "/metadata/creationTimestamp");
    (number(revision, "/revision"), created, name(revision))
}

/// The revision with a number.
///
/// # Errors
/// There is none; the message lists those that exist.
pub fn find<'a>(all: &'a [Value], wanted: i64, target: &Target) -> anyhow::Result<&'a Value> {
    let is_wanted = |one: &&Value| number(one, "/revision") == wanted;
    if let Some(found) = all.iter().find(is_wanted) {
        return Ok(found);
    }
    let known: Vec<_> = all
        .iter()
        .map(|one| number(one, "/revision").to_string())
        .collect();
    match &*known.join(", ") {
        "" => bail!("{} has no revision yet", target.quoted()),
        known => bail!(
            "{} has no revision {wanted}; it has {known}",
            target.quoted()
        ),
    }
}

/// The number of the revision with this name or hash.
pub fn number_of(all: &[Value], label: &str) -> Option<i64> {
    let found = all.iter().find(|one| revision::same(label, name(one)))?;
    Some(number(found, "/revision"))
}

/// The revision as the controller reads it.
///
/// # Errors
/// It cannot be read.
pub fn read(revision: &Value) -> anyhow::Result<Arc<Revision>> {
    let read: Revision = serde_json::from_str(&revision.to_string())
        .with_context(|| format!("ControllerRevision {} cannot be read", name(revision)))?;
    Ok(Arc::new(read))
}

/// The pod template of a revision.
///
/// # Errors
/// It cannot be read, or has no template.
pub fn template_of(revision: &Value) -> anyhow::Result<Value> {
    let mut template = read(revision)?.template();
    let Some(fields) = template.as_object_mut() else {
        bail!(
            "ControllerRevision {} has no data.spec.template",
            name(revision)
        );
    };
    // Kubernetes' own types write an empty time, which is no part of a template.
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, value| key != "creationTimestamp" || !value.is_null());
    }
    Ok(template)
}

fn row(revision: &Value, object: &Value, now: Timestamp) -> Vec<String> {
    let cause = revision
        .pointer("/metadata/annotations/kubernetes.io~1change-cause")
        .and_then(Value::as_str);
    let images: Vec<_> = items(revision, "/data/spec/template/spec/containers")
        .map(|container| text(container, "/image"))
        .collect();
    let is = |field| revision::same(text(object, field), name(revision));
    let state = match (is("/status/currentRevision"), is("/status/updateRevision")) {
        (true, true) => "current, update",
        (true, false) => "current",
        (false, true) => "update",
        (false, false) => "",
    };
    vec![
        number(revision, "/revision").to_string(),
        cause.unwrap_or("<none>").to_owned(),
        images.join(","),
        age_of(text(revision, "/metadata/creationTimestamp"), now),
        state.to_owned(),
    ]
}

#[cfg(test)]
mod tests;
