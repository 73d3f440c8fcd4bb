//! `kubectl berth rollout pause`, `resume`, `restart`, `partition` and `promote`.

use anyhow::bail;
use berth_api::names::annotation::RESTARTED_AT;
use clap::Args;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use super::kind::RolloutKind;
use super::target::{ChangeArgs, Target, is_on_delete, is_paused};
use crate::exit::{Exit, WrongUsage};
use crate::in_place::{self, Cluster};
use crate::session::Session;
use crate::text::{clean, clean_lines};
use crate::write::WriteFlags;

/// The object, and its partition.
#[derive(Debug, Args)]
pub struct Partition {
    /// TYPE/NAME, and the pods that stay at the old revision: a number, or a percentage.
    #[arg(required = true, num_args = 2..=3, value_names = ["TYPE/NAME", "N|P%"])]
    pub words: Vec<String>,
    /// Whether the change is written, and how it is printed.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// Stops updates of pods, or continues them.
///
/// # Errors
/// The object is in that state already, the user may not change it, or the apiserver did not
/// answer.
pub async fn set_paused(
    session: &Session,
    change: &ChangeArgs,
    paused: bool,
) -> anyhow::Result<Exit> {
    let target = Target::parse(&change.object.object)?;
    let Some(field) = target.kind.paused() else {
        return Err(target.lacks("pause").into());
    };
    let edit = |old: &Value| match (is_paused(target.kind, old), paused) {
        (true, true) => bail!("{} is already paused", target.quoted()),
        (false, false) => bail!("{} is not paused", target.quoted()),
        _ => Ok(with(old, at(field, json!(paused)))),
    };
    let verb = if paused { "paused" } else { "resumed" };
    write(session, &target, change.write, edit, |_| verb.to_owned()).await
}

/// Changes the annotation of the template that restarts containers.
///
/// # Errors
/// The object is paused, the user may not change it, or the apiserver did not answer.
pub async fn restart(session: &Session, change: &ChangeArgs) -> anyhow::Result<Exit> {
    let target = Target::parse(&change.object.object)?;
    if !target.kind.has_history() {
        return Err(target.lacks("pods to restart").into());
    }
    let cluster = Cluster::read(session).await?;
    let now = Timestamp::now().round(Unit::Second)?.to_string();
    let edit = |old: &Value| {
        if is_paused(target.kind, old) {
            bail!(
                "{} is paused; use `kubectl berth rollout resume {}` first",
                target.quoted(),
                target.argument()
            );
        }
        let annotations = json!({"metadata": {"annotations": {RESTARTED_AT: now}}});
        let new = with(old, json!({"spec": {"template": annotations}}));
        print_way(&target, old, &new, &cluster)?;
        Ok(new)
    };
    write(session, &target, change.write, edit, |_| {
        "restarted".to_owned()
    })
    .await
}

impl Partition {
    /// Sets the partition.
    ///
    /// # Errors
    /// The kind has no partition, the partition is no number, the user may not change the object,
    /// or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let Some((partition, object)) = self.words.split_last() else {
            return Err(WrongUsage("name one object: TYPE/NAME".to_owned()).into());
        };
        let target = Target::parse(object)?;
        let Some(field) = target.kind.partition() else {
            return Err(target.lacks("partition").into());
        };
        let value = parse(&target, partition)?;
        let edit = |old: &Value| {
            if let Some(note) = delay(&target, old) {
                anstream::eprintln!("{note}");
            }
            Ok(with(old, at(field, value.clone())))
        };
        write(session, &target, self.write, edit, |new| {
            format!("partition set to {partition}{}", reach(target.kind, new))
        })
        .await
    }
}

/// Removes the partition and the pause.
///
/// # Errors
/// The kind has no partition, the user may not change the object, or the apiserver did not answer.
pub async fn promote(session: &Session, change: &ChangeArgs) -> anyhow::Result<Exit> {
    let target = Target::parse(&change.object.object)?;
    let (Some(partition), Some(paused)) = (target.kind.partition(), target.kind.paused()) else {
        return Err(target.lacks("partition").into());
    };
    let edit = |old: &Value| Ok(promoted(old, partition, paused));
    write(session, &target, change.write, edit, |new| {
        format!("promoted{}", reach(target.kind, new))
    })
    .await
}

fn promoted(old: &Value, partition: &str, paused: &str) -> Value {
    let all = with(old, at(partition, json!(0)));
    // Only a field that says otherwise is written: OnDelete allows no others.
    match all.pointer(paused) {
        Some(Value::Bool(true)) => with(&all, at(paused, json!(false))),
        _ => all,
    }
}

/// Prints how the change reaches the pods, and why it does not now.
///
/// # Errors
/// The object has no pods.
pub fn print_way(
    target: &Target,
    old: &Value,
    new: &Value,
    cluster: &Cluster,
) -> anyhow::Result<()> {
    let way = in_place::way(target.named.resource, old, new, cluster)?;
    anstream::eprintln!("{}", clean_lines(&way.to_string()));
    // The way says itself that pods wait for their deletion.
    if let Some(note) = delay(target, old).filter(|_| !is_on_delete(old)) {
        anstream::eprintln!("{note}");
    }
    Ok(())
}

/// The reason why no pod changes now.
fn delay(target: &Target, object: &Value) -> Option<String> {
    if is_on_delete(object) {
        Some("pods change when they are deleted, because the strategy is OnDelete".to_owned())
    } else if is_paused(target.kind, object) {
        Some(format!(
            "pods change after `kubectl berth rollout resume {}`, because updates are paused",
            target.argument()
        ))
    } else {
        None
    }
}

/// The partition as the field has it.
fn parse(target: &Target, text: &str) -> Result<Value, WrongUsage> {
    let number = text.parse::<i32>().ok();
    if target.kind == RolloutKind::StatefulSet && number.is_none() {
        return Err(WrongUsage(format!(
            "partition {text:?} of a statefulset is not a number of pods"
        )));
    }
    let value = number.map_or_else(|| json!(text), |number| json!(number));
    match target.kind.kept(Some(&value), 1) {
        Ok(_) => Ok(value),
        Err(problem) => Err(WrongUsage(format!("partition {problem}"))),
    }
}

/// How many pods updates reach at the object's partition.
fn reach(kind: RolloutKind, object: &Value) -> String {
    let total = kind.total(object);
    let places = match kind {
        RolloutKind::DaemonSet => "nodes",
        _ => "pods",
    };
    // A partition that cannot be read is the apiserver's to refuse.
    kind.kept_of(object).map_or_else(
        |_| String::new(),
        |kept| format!(": updates reach {} of {total} {places}", total - kept),
    )
}

/// A merge patch of one field, by its JSON pointer.
fn at(pointer: &str, value: Value) -> Value {
    let keys: Vec<_> = pointer.split('/').skip(1).collect();
    let nested = |value, key: &&str| json!({ *key: value });
    keys.iter().rev().fold(value, nested)
}

/// The object with the fields of a patch.
fn with(object: &Value, patch: Value) -> Value {
    let mut new = object.clone();
    merge(&mut new, patch);
    new
}

fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch,
    }
}

async fn write(
    session: &Session,
    target: &Target,
    flags: WriteFlags,
    edit: impl FnMut(&Value) -> anyhow::Result<Value>,
    done: impl Fn(&Value) -> String,
) -> anyhow::Result<Exit> {
    let (_, new) = flags
        .update(session, &target.named, &target.name, edit)
        .await?;
    flags.print(target.named.resource, &new, clean(&done(&new)))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests;
