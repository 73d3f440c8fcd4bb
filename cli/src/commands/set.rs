//! `kubectl berth set`: changes fields of a pod template, and says how the change reaches the pods.

mod change;

use berth_api::name::Name;
use berth_workload::objects::resource::{
    CLONE_SETS, CONTROLLER_REVISIONS, Resource, STATEFUL_SETS,
};
use berth_workload::update::revision::Revision;
use clap::{Args, Subcommand};
use serde_json::Value;

use self::change::assignments;
use crate::exit::{Exit, WrongUsage};
use crate::in_place::{self, Cluster};
use crate::kinds;
use crate::objects;
use crate::session::Session;
use crate::text::clean_lines;
use crate::write::WriteFlags;

/// The field to change.
#[derive(Debug, Args)]
pub struct Set {
    /// The field.
    #[command(subcommand)]
    pub field: Field,
}

/// The fields that can be set.
#[derive(Debug, Subcommand)]
pub enum Field {
    /// Images: `set image cloneset/web app=web:2`, or `*=IMAGE` for all containers.
    Image(Image),
    /// Environment variables: `set env cloneset/web KEY=VALUE OTHER-`.
    Env(Env),
    /// Resources: `set resources cloneset/web --limits cpu=1,memory=1Gi`.
    Resources(Resources),
    /// The service account: `set serviceaccount cloneset/web NAME`.
    #[command(visible_alias = "sa")]
    Serviceaccount(ServiceAccount),
}

/// Images by container.
#[derive(Debug, Args)]
pub struct Image {
    /// TYPE/NAME, then CONTAINER=IMAGE.
    #[arg(required = true, num_args = 1.., value_name = "TYPE/NAME CONTAINER=IMAGE")]
    pub words: Vec<String>,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// Environment variables.
#[derive(Debug, Args)]
pub struct Env {
    /// TYPE/NAME, then KEY=VALUE to set a variable and KEY- to remove it.
    #[arg(required = true, num_args = 1.., value_name = "TYPE/NAME KEY=VALUE")]
    pub words: Vec<String>,
    /// The containers, `*` stands for any characters.
    #[arg(
        short,
        long = "containers",
        visible_alias = "container",
        value_delimiter = ',',
        default_value = "*"
    )]
    pub container: Vec<String>,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// Resources of containers.
#[derive(Debug, Args)]
pub struct Resources {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// The containers, `*` stands for any characters.
    #[arg(
        short,
        long = "containers",
        visible_alias = "container",
        value_delimiter = ',',
        default_value = "*"
    )]
    pub container: Vec<String>,
    /// Limits, such as cpu=200m,memory=512Mi.
    #[arg(long, value_delimiter = ',', value_name = "NAME=AMOUNT")]
    pub limits: Vec<String>,
    /// Requests, such as cpu=100m,memory=256Mi.
    #[arg(long, value_delimiter = ',', value_name = "NAME=AMOUNT")]
    pub requests: Vec<String>,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// The service account of the pods.
#[derive(Debug, Args)]
pub struct ServiceAccount {
    /// TYPE/NAME, then the name of the service account.
    #[arg(required = true, num_args = 1..=3, value_name = "TYPE/NAME SERVICEACCOUNT")]
    pub words: Vec<String>,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

impl Set {
    /// Changes the field.
    ///
    /// # Errors
    /// The command line is wrong, the object has no such container, or the apiserver refused the
    /// change.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        match &self.field {
            Field::Image(image) => {
                let (object, pairs) = assignments(&image.words)?;
                let change = |spec: &mut Value| change::images(spec, &pairs);
                set(session, object, image.write, "image updated", change).await
            }
            Field::Env(env) => {
                let (object, pairs) = assignments(&env.words)?;
                let change = |spec: &mut Value| change::env(spec, &env.container, &pairs);
                set(session, object, env.write, "env updated", change).await
            }
            Field::Resources(resources) => {
                let lists = change::amounts(&resources.limits, &resources.requests)?;
                let change =
                    |spec: &mut Value| change::resources(spec, &resources.container, &lists);
                let done = "resource requirements updated";
                set(session, &resources.object, resources.write, done, change).await
            }
            Field::Serviceaccount(account) => {
                let Some((name, object)) = account.words.split_last() else {
                    return Err(
                        WrongUsage("name an object and a service account".to_owned()).into(),
                    );
                };
                let change = |spec: &mut Value| change::service_account(spec, name);
                set(
                    session,
                    object,
                    account.write,
                    "serviceaccount updated",
                    change,
                )
                .await
            }
        }
    }
}

/// Changes the pod's spec of an object. Before the write, standard error gets the way to the pods.
async fn set(
    session: &Session,
    object: &[String],
    flags: WriteFlags,
    done: &str,
    change: impl Fn(&mut Value) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let (kind, name) = kinds::object(object)?;
    let cluster = Cluster::read(session).await?;
    let before = session.get(&kind, &name).await?;
    let current = current(session, kind.resource, &before).await;
    let mut said = Vec::new();
    let changed = |old: &Value| {
        let new = change::applied(kind.resource, old, &change)?;
        let ways = ways(kind.resource, (old, current.as_ref()), &new, &cluster)?;
        // The change is made again if another writer was first.
        if ways != said {
            anstream::eprintln!("{}", clean_lines(&ways.join("\n")));
            said = ways;
        }
        Ok(new)
    };
    let (old, new) = flags.update(session, &kind, &name, changed).await?;
    let is_changed = old["spec"] != new["spec"];
    let done = if is_changed { done } else { "unchanged" };
    flags.print(kind.resource, &new, done)?;
    Ok(Exit::Done)
}

/// The object with the template of its current revision, if pods have that and not the present
/// template.
async fn current(session: &Session, resource: Resource, object: &Value) -> Option<Value> {
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
fn ways(
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
