//! Writes of commands: dry runs, output formats, and changes that no other writer's change is lost
//! by.

use std::fmt::Display;
use std::time::Duration;

use anyhow::bail;
use berth_workload::objects::resource::Resource;
use clap::{Args, ValueEnum};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::kinds::NamedKind;
use crate::objects;
use crate::session::{Session, qualified};
use crate::text::{clean_lines, json};

/// The manager in managedFields.
const MANAGER: &str = "kubectl-berth";
/// How often a change is tried when other writers write between its read and its write.
const TRIES: usize = 10;
/// The longest pause between two tries, in milliseconds. Its length is random, so that writers
/// part.
const PAUSE: u64 = 200;

/// The flags of commands that write.
#[derive(Debug, Clone, Copy, Args)]
pub struct WriteFlags {
    /// Write nothing; without a value, `client`.
    #[arg(long, value_enum, default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true)]
    pub dry_run: DryRun,
    /// Print the object instead of a sentence.
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// Whether a write is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Write.
    None,
    /// Send nothing.
    Client,
    /// Send it, and the apiserver keeps nothing.
    Server,
}

/// A format for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `cloneset.apps.kruise.io/web`.
    Name,
}

impl WriteFlags {
    /// Changes an object by `change`, and returns it as it was and as it is. Another writer's
    /// change in between is kept: `change` is applied to the object of that writer.
    ///
    /// # Errors
    /// The error of `change`, or the apiserver's answer.
    pub async fn update(
        &self,
        session: &Session,
        kind: &NamedKind,
        name: &str,
        mut change: impl FnMut(&Value) -> anyhow::Result<Value>,
    ) -> anyhow::Result<(Value, Value)> {
        for _ in 0..TRIES {
            let old = session.get(kind, name).await?;
            let new = change(&old)?;
            let Some(mut patch) = merge_patch(&old, &new) else {
                return Ok((old, new));
            };
            if self.dry_run == DryRun::Client {
                return Ok((old, new));
            }
            patch["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            let is_kept = self.dry_run == DryRun::None;
            match session.patch(kind, name, &patch, !is_kept).await {
                Ok(new) => return Ok((old, new)),
                Err(error) if is_conflict(&error) => {
                    sleep(Duration::from_millis(fastrand::u64(1..=PAUSE))).await;
                }
                Err(error) => return Err(error),
            }
        }
        bail!(
            "{} changed {TRIES} times while it was read: try again",
            title(kind.resource, name)
        )
    }

    /// Creates an object in its namespace, and returns it.
    ///
    /// # Errors
    /// The apiserver's answer.
    pub async fn create(
        &self,
        session: &Session,
        resource: Resource,
        mut object: Value,
    ) -> anyhow::Result<Value> {
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        object["metadata"]["namespace"] = json!(session.namespace);
        if self.dry_run == DryRun::Client {
            return Ok(object);
        }
        let parameters = PostParams {
            dry_run: self.dry_run == DryRun::Server,
            field_manager: Some(MANAGER.to_owned()),
        };
        let object: DynamicObject = serde_json::from_value(object)?;
        let api = session.api(resource);
        let created = api.create(&parameters, &object);
        Ok(serde_json::to_value(session.within(created).await??)?)
    }

    /// Prints what was done with an object, or the object.
    ///
    /// # Errors
    /// The object cannot be written in the format.
    pub fn print(
        &self,
        resource: Resource,
        object: &Value,
        done: impl Display,
    ) -> anyhow::Result<()> {
        let mut shown = object.clone();
        if let Some(metadata) = shown["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let title = title(resource, objects::name(object));
        let text = match self.output {
            Some(Format::Json) => json(&shown)?,
            Some(Format::Yaml) => serde_saphyr::to_string(&shown)?.trim_end().to_owned(),
            Some(Format::Name) => title,
            None => format!("{title} {done}{}", self.dry_run.suffix()),
        };
        anstream::println!("{}", clean_lines(&text));
        Ok(())
    }
}

impl DryRun {
    /// What kubectl adds to its sentences.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// The object as kubectl names it: `cloneset.apps.kruise.io/web`.
pub fn title(resource: Resource, name: &str) -> String {
    let singular = Resource {
        plural: "",
        ..resource
    };
    let group = qualified(singular);
    format!("{}{group}/{name}", resource.kind.to_lowercase())
}

/// The JSON merge patch from one value to another; `None` if they are equal.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        let changed = match before.get(key) {
            Some(old) => merge_patch(old, value),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(key.clone(), changed);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether another writer wrote first.
pub fn is_conflict(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(refused)) if refused.code == 409)
}

#[cfg(test)]
mod tests;
