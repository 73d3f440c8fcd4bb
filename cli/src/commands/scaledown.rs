//! `kubectl berth scaledown`: deletes certain pods of a workload and lowers its replicas in one
//! write, so that no pod replaces them.

use anyhow::bail;
use berth_api::v1beta1::statefulset::StatefulSetSpec;
use berth_controller::settings::gates;
use berth_kinds::statefulset::ordinals;
use berth_workload::feature_gates::Gate;
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::objects::resource::{CLONE_SETS, PODS, STATEFUL_SETS};
use clap::Args;
use serde_json::{Value, json};

use crate::exit::{Exit, WrongUsage};
use crate::kinds;
use crate::objects;
use crate::pod_spec::object_in;
use crate::session::Session;
use crate::text::clean_lines;
use crate::write::{WriteFlags, title};

/// The workload and its pods.
#[derive(Debug, Args)]
pub struct ScaleDown {
    /// TYPE/NAME, then the names of the pods.
    #[arg(required = true, num_args = 1.., value_name = "TYPE/NAME POD")]
    pub words: Vec<String>,
    /// The pods, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "POD")]
    pub pods: Vec<String>,
    /// The replicas after the change; without it, those before it less the pods.
    #[arg(long, value_name = "N")]
    pub replicas: Option<i64>,
    /// How the change is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

impl ScaleDown {
    /// Deletes the pods by a change of their workload.
    ///
    /// # Errors
    /// A pod is not the workload's, or the apiserver refused the change.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (object, pods) = split(&self.words);
        let pods: Vec<String> = pods.iter().chain(&self.pods).cloned().collect();
        let (kind, name) = kinds::object(object)?;
        if pods.is_empty() {
            return Err(WrongUsage("name the pods to delete".to_owned()).into());
        }
        if ![CLONE_SETS, STATEFUL_SETS].contains(&kind.resource) {
            let singular = kind.singular();
            return Err(WrongUsage(format!(
                "a {singular} has no field for pods to delete; a cloneset and a statefulset have"
            ))
            .into());
        }
        let counts_start = kind.resource == STATEFUL_SETS && counts_start(session).await?;
        let workload = session.get(&kind, &name).await?;
        let selector = objects::selector(&workload).unwrap_or_default();
        let all = session.list(PODS, &session.namespace, &selector).await?;
        let change = |old: &Value| {
            check_pods(&all, old, &title(kind.resource, &name), &pods)?;
            if kind.resource == CLONE_SETS {
                cloneset(old, &pods, self.replicas)
            } else {
                statefulset(old, &pods, self.replicas, counts_start)
            }
        };
        let (old, new) = self.write.update(session, &kind, &name, change).await?;
        if let Some(owner) = objects::controller(&old) {
            let owner = format!(
                "note: {} {} controls it and may set its replicas again",
                objects::text(owner, "/kind"),
                objects::text(owner, "/name")
            );
            anstream::eprintln!("{}", clean_lines(&owner));
        }
        let replicas = |object| replicas(object);
        let done = format!(
            "scaled down from {} to {} replicas: {} will be deleted",
            replicas(&old),
            replicas(&new),
            pods.join(", ")
        );
        self.write.print(kind.resource, &new, done)?;
        Ok(Exit::Done)
    }
}

/// The words that name an object, and the words after them.
fn split(words: &[String]) -> (&[String], &[String]) {
    let of_object = match words.first() {
        Some(first) if first.contains('/') => 1,
        _ => 2,
    };
    words.split_at(of_object.min(words.len()))
}

/// Whether `spec.ordinals.start` counts, by the controller's feature gate.
async fn counts_start(session: &Session) -> anyhow::Result<bool> {
    let (settings, note) = session.settings().await;
    if let Some(note) = note {
        anstream::eprintln!("note: {}", clean_lines(&note));
    }
    let gates = gates::parse(&settings.feature_gates).map_err(anyhow::Error::msg)?;
    Ok(gates.has(Gate::StatefulSetStartOrdinal))
}

fn replicas(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// The number of replicas after the change.
fn fewer(object: &Value, pods: usize, wanted: Option<i64>) -> anyhow::Result<i64> {
    let before = replicas(object);
    let less = before - i64::try_from(pods).unwrap_or(i64::MAX);
    let after = wanted.unwrap_or(less);
    if after < 0 || after > before {
        bail!("{after} replicas: use 0 to {before}, the number before");
    }
    Ok(after)
}

/// Whether the pods exist and are the workload's, each named once.
fn check_pods(all: &[Value], workload: &Value, title: &str, pods: &[String]) -> anyhow::Result<()> {
    for (at, name) in pods.iter().enumerate() {
        if pods.iter().take(at).any(|before| before == name) {
            bail!("pod {name:?} is named twice");
        }
        let found = all.iter().find(|pod| objects::name(pod) == name);
        let owner = found.and_then(objects::controller);
        if owner.is_none_or(|owner| owner["uid"] != workload["metadata"]["uid"]) {
            bail!("{title} has no pod {name:?}");
        }
        if found.is_some_and(|pod| pod["metadata"].get("deletionTimestamp").is_some()) {
            bail!("pod {name:?} is being deleted already");
        }
    }
    Ok(())
}

/// The CloneSet with the pods among those to delete, and fewer replicas.
fn cloneset(old: &Value, pods: &[String], wanted: Option<i64>) -> anyhow::Result<Value> {
    let listed = old.pointer("/spec/scaleStrategy/podsToDelete");
    let mut listed = listed
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if let Some(twice) = pods.iter().find(|pod| listed.contains(&json!(pod))) {
        bail!("pod {twice:?} is in spec.scaleStrategy.podsToDelete already");
    }
    listed.extend(pods.iter().map(|pod| json!(pod)));
    let after = fewer(old, pods.len(), wanted)?;
    let mut new = old.clone();
    let spec = new.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec {
        spec.insert("replicas".to_owned(), json!(after));
        if let Some(strategy) = object_in(spec, "scaleStrategy") {
            strategy.insert("podsToDelete".to_owned(), json!(listed));
        }
    }
    Ok(new)
}

/// The StatefulSet with fewer replicas, and with the pods' ordinals reserved. An ordinal above the
/// last that stays needs no reservation.
fn statefulset(
    old: &Value,
    pods: &[String],
    wanted: Option<i64>,
    counts_start: bool,
) -> anyhow::Result<Value> {
    let name = objects::name(old);
    let read = |spec: &Value| -> anyhow::Result<StatefulSetSpec> {
        Ok(serde_json::from_value(spec.clone())?)
    };
    let of = |spec: &StatefulSetSpec| {
        ordinals(spec, counts_start).map_err(|(field, problem)| {
            anyhow::anyhow!("statefulset {name}: spec.{field}: {problem}")
        })
    };
    let mut spec = read(&old["spec"])?;
    let before = of(&spec)?;
    let mut leaving = Vec::new();
    for pod in pods {
        match ordinal_of(name, pod).filter(|ordinal| before.contains(*ordinal)) {
            Some(ordinal) => leaving.push(ordinal),
            None => bail!("pod {pod:?} is beyond spec.replicas already"),
        }
    }
    let after = fewer(old, pods.len(), wanted)?;
    spec.replicas = Some(i32::try_from(after)?);
    // With all of them reserved, the ordinals that stay are known.
    let mut reserved = spec.reserve_ordinals.clone();
    let entries = leaving.iter().filter_map(|one| i32::try_from(*one).ok());
    spec.reserve_ordinals
        .extend(entries.map(berth_api::IntOrString::Int));
    let last = of(&spec)?.last().unwrap_or(-1);
    let below = leaving.iter().filter(|ordinal| **ordinal < last);
    let below = below.filter_map(|one| i32::try_from(*one).ok());
    reserved.extend(below.map(berth_api::IntOrString::Int));
    let mut new = old.clone();
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".to_owned(), json!(after));
        if !reserved.is_empty() {
            spec.insert("reserveOrdinals".to_owned(), json!(reserved));
        }
    }
    Ok(new)
}

#[cfg(test)]
mod tests;
