//! The object of a rollout command.

use berth_api::name::Name;
use clap::Args;
use serde_json::Value;

use super::kind::RolloutKind;
use crate::exit::WrongUsage;
use crate::kinds::{self, NamedKind};
use crate::objects;
use crate::session::{Session, qualified};
use crate::text::clean;
use crate::write::WriteFlags;

/// The object of the command line.
#[derive(Debug, Args)]
pub struct ObjectArgs {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
}

/// The object to change.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArgs,
    /// Whether the change is written, and how it is printed.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// The object of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind in the API.
    pub named: NamedKind,
    /// The kind as a rollout.
    pub kind: RolloutKind,
    /// The name.
    pub name: String,
}

impl Target {
    /// The object that the words name.
    ///
    /// # Errors
    /// The words name no object, or its kind has no rollout.
    pub fn parse(words: &[String]) -> Result<Self, WrongUsage> {
        let (named, name) = kinds::object(words)?;
        Name::parse(&name).map_err(|error| WrongUsage(error.to_string()))?;
        let kind = RolloutKind::of(&named)
            .ok_or_else(|| WrongUsage(format!("{} has no rollout", named.singular())))?;
        Ok(Self { named, kind, name })
    }

    /// Reads the object.
    ///
    /// # Errors
    /// It does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn read(&self, session: &Session) -> anyhow::Result<Value> {
        session.get(&self.named, &self.name).await
    }

    /// The object as kubectl names it in errors: `clonesets.apps.kruise.io "web"`.
    pub fn quoted(&self) -> String {
        clean(&format!(
            "{} \"{}\"",
            qualified(self.named.resource),
            self.name
        ))
    }

    /// The object as commands name it: `cloneset/web`.
    pub fn argument(&self) -> String {
        clean(&format!("{}/{}", self.named.singular(), self.name))
    }

    /// The error for a command that the kind does not support.
    pub fn lacks(&self, what: &str) -> WrongUsage {
        WrongUsage(format!("{} has no {what}", self.named.singular()))
    }
}

/// Whether updates of pods are paused.
pub fn is_paused(kind: RolloutKind, object: &Value) -> bool {
    let field = kind.paused().and_then(|path| object.pointer(path));
    field.and_then(Value::as_bool).unwrap_or_default()
}

/// Whether pods are updated only when a user deletes them.
pub fn is_on_delete(object: &Value) -> bool {
    objects::text(object, "/spec/updateStrategy/type") == "OnDelete"
}
