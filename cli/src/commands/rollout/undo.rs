//! `kubectl berth rollout undo`: the template of an earlier revision.

use anyhow::bail;
use berth_workload::update::revision::{Recognised, recognise};
use clap::Args;
use serde_json::Value;

use super::history::{find, number_of, read, revisions, template_of};
use super::steer::print_way;
use super::target::{ObjectArgs, Target};
use crate::exit::Exit;
use crate::in_place::Cluster;
use crate::objects::number;
use crate::session::Session;
use crate::write::WriteFlags;

/// The object, and the revision to return to.
#[derive(Debug, Args)]
pub struct Undo {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArgs,
    /// The number of the revision; without it, the newest one before the present template.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    pub to_revision: Option<i64>,
    /// Whether the change is written, and how it is printed.
    #[command(flatten)]
    pub write: WriteFlags,
}

impl Undo {
    /// Writes the template of the revision, unless another writer changes the template meanwhile.
    ///
    /// # Errors
    /// There is no such revision, the template changed meanwhile, the user may not change the
    /// object, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let target = Target::parse(&self.object.object)?;
        if !target.kind.has_history() {
            return Err(target.lacks("history to return to").into());
        }
        let object = target.read(session).await?;
        let all = revisions(session, &object).await?;
        let present = object.pointer("/spec/template").unwrap_or(&Value::Null);
        // As with kubectl, 0 is the revision before.
        let wanted = self.to_revision.filter(|number| *number != 0);
        let resource = target.named.resource;
        let chosen = match choose(&all, present, wanted, &target)? {
            Chosen::Present(number) => {
                let skipped =
                    format!("skipped rollback (the template is that of revision {number} already)");
                self.write.print(resource, &object, skipped)?;
                return Ok(Exit::Done);
            }
            Chosen::Earlier(chosen) => chosen,
        };
        let template = template_of(chosen)?;
        let cluster = Cluster::read(session).await?;
        let edit = |old: &Value| {
            if old.pointer("/spec/template") != Some(present) {
                bail!(
                    "spec.template of {} changed meanwhile: try again",
                    target.quoted()
                );
            }
            let mut new = old.clone();
            new["spec"]["template"] = template.clone();
            print_way(&target, old, &new, &cluster)?;
            Ok(new)
        };
        let (_, new) = self
            .write
            .update(session, &target.named, &target.name, edit)
            .await?;
        let number = number(chosen, "/revision");
        let done = format!("rolled back to revision {number}");
        self.write.print(resource, &new, done)?;
        Ok(Exit::Done)
    }
}

/// The revision to return to.
#[derive(Debug, PartialEq)]
enum Chosen<'a> {
    /// The present template is that of the revision with this number.
    Present(i64),
    /// Another one.
    Earlier(&'a Value),
}

fn choose<'a>(
    all: &'a [Value],
    present: &Value,
    wanted: Option<i64>,
    target: &Target,
) -> anyhow::Result<Chosen<'a>> {
    let read: Vec<_> = all.iter().map(read).collect::<Result<_, _>>()?;
    let recognised = match recognise(present, &read) {
        Recognised::Newest(revision) | Recognised::Older(revision, _) => {
            number_of(all, &revision.metadata.name)
        }
        Recognised::New(_) => None,
    };
    if let Some(wanted) = wanted {
        let found = find(all, wanted, target)?;
        return Ok(match recognised {
            Some(present) if present == wanted => Chosen::Present(present),
            _ => Chosen::Earlier(found),
        });
    }
    let is_other = |one: &&Value| Some(number(one, "/revision")) != recognised;
    match all.iter().rev().find(is_other) {
        Some(earlier) => Ok(Chosen::Earlier(earlier)),
        None => bail!("{} has no earlier revision", target.quoted()),
    }
}

#[cfg(test)]
mod tests;
