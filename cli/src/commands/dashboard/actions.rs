//! Changes of workloads. The page shows each patch, tried as a dry run, before it is carried out.

use berth_api::names::annotation::RESTARTED_AT;
use berth_workload::objects::resource::{
    CLONE_SETS, DAEMON_SETS, Resource, SIDECAR_SETS, STATEFUL_SETS,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::rollout::kind::RolloutKind;
use crate::in_place::{self, Cluster};
use crate::objects::{self, number, text};
use crate::session::Session;

use super::answers::Refused;
use super::changes;
use super::read::{named, of_namespace, read, revisions, template};
use super::routes::{BROADCAST_JOBS, Key, Verb};

/// How often a patch is sent if the object changes between its read and the patch.
const TRIES: usize = 3;

/// The body of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Wanted {
    /// Only returns the patch.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// The generation for which the patch was shown; needed to carry it out.
    pub(super) generation: Option<i64>,
    /// Of `partition`: the new value.
    pub(super) partition: Option<Value>,
    /// Of `undo`: the number of the revision.
    pub(super) revision: Option<i64>,
    /// Of `restart`: the time in the patch that was shown.
    pub(super) at: Option<Timestamp>,
}

/// A change with all its inputs.
#[derive(Debug)]
pub(super) enum Action {
    Pause,
    Resume,
    Restart { at: Timestamp },
    Partition(Value),
    Undo { template: Value },
}

/// Shows a patch or carries it out.
pub(super) async fn act(
    session: &Session,
    key: &Key,
    verb: Verb,
    wanted: &Wanted,
) -> Result<Value, Refused> {
    let session = of_namespace(session, &key.namespace);
    let at = wanted.at.unwrap_or_else(Timestamp::now);
    let at = at.round(jiff::Unit::Second).unwrap_or(at);
    let kind = named(key.resource);
    for tries in 1.. {
        let object = read(&session, key).await?;
        let generation = number(&object, "/metadata/generation");
        if !wanted.dry_run && wanted.generation != Some(generation) {
            return Err(Refused::conflict(format!(
                "{} {:?} has changed since its patch was shown: look at the patch again",
                kind.singular(),
                key.name
            )));
        }
        let action = action(&session, &object, verb, wanted, at).await?;
        let shown = patch(key.resource, &action, &object)?;
        let mut sent = shown.clone();
        sent["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        match session
            .patch(&kind, &key.name, &sent, wanted.dry_run)
            .await
            .map_err(Refused::from)
        {
            Err(refused) if refused.status == http::StatusCode::CONFLICT && tries < TRIES => {}
            Err(refused) => return Err(refused),
            Ok(patched) => {
                let has_way = matches!(action, Action::Restart { .. } | Action::Undo { .. });
                let way = match has_way && wanted.dry_run {
                    true => way(&session, key.resource, (&object, &patched)).await,
                    false => None,
                };
                return Ok(json!({
                    "dryRun": wanted.dry_run,
                    "patch": shown,
                    "generation": generation,
                    "at": at,
                    "effect": effect(key.resource, &action, &object),
                    "way": way,
                }));
            }
        }
    }
    Err(Refused::conflict(
        "the object changes all the time: try again",
    ))
}

async fn action(
    session: &Session,
    object: &Value,
    verb: Verb,
    wanted: &Wanted,
    at: Timestamp,
) -> Result<Action, Refused> {
    Ok(match verb {
        Verb::Pause => Action::Pause,
        Verb::Resume => Action::Resume,
        Verb::Restart => Action::Restart { at },
        Verb::Partition => {
            let partition = wanted.partition.clone();
            Action::Partition(
                partition.ok_or_else(|| Refused::invalid("the partition is missing"))?,
            )
        }
        Verb::Undo => {
            let listed = revisions(session, object).await?;
            let known =
                listed.map_err(|sentence| Refused::new(http::StatusCode::FORBIDDEN, sentence))?;
            Action::Undo {
                template: earlier(object, &known, wanted.revision)?,
            }
        }
    })
}

/// The template of a revision; without a number, of the newest one that is not the present.
fn earlier(object: &Value, revisions: &[Value], number_of: Option<i64>) -> Result<Value, Refused> {
    let update = text(object, "/status/updateRevision");
    let chosen = revisions.iter().find(|one| match number_of {
        Some(wanted) => number(one, "/revision") == wanted,
        None => objects::name(one) != update,
    });
    match (chosen.map(template), number_of) {
        (Some(template), _) if template.is_object() => Ok(template),
        (_, Some(wanted)) => Err(Refused::conflict(format!(
            "there is no revision {wanted} any more"
        ))),
        (_, None) => Err(Refused::conflict("there is no earlier revision")),
    }
}

/// The changes that a kind has.
pub(super) fn possible(resource: Resource) -> &'static [&'static str] {
    match resource {
        CLONE_SETS | STATEFUL_SETS | DAEMON_SETS => {
            &["pause", "resume", "restart", "undo", "partition"]
        }
        SIDECAR_SETS => &["pause", "resume", "partition"],
        BROADCAST_JOBS => &["pause", "resume"],
        _ => &[],
    }
}

/// The kind with its rules of rollouts.
pub(super) fn rollout(resource: Resource) -> Option<RolloutKind> {
    RolloutKind::of(&named(resource))
}

/// The JSON merge patch of a change.
pub(super) fn patch(resource: Resource, action: &Action, object: &Value) -> Result<Value, Refused> {
    let name = objects::name(object);
    let lacks = |what: &str| Refused::invalid(format!("{} have no {what}", resource.plural));
    match action {
        Action::Pause | Action::Resume => {
            let at = rollout(resource)
                .and_then(RolloutKind::paused)
                .ok_or_else(|| lacks("pause"))?;
            let (wanted, word) = match action {
                Action::Pause => (true, "paused already"),
                _ => (false, "not paused"),
            };
            let is_paused = object.pointer(at) == Some(&json!(true));
            if is_paused == wanted {
                return Err(Refused::conflict(format!("{name} is {word}")));
            }
            Ok(nested(at, json!(wanted)))
        }
        Action::Partition(partition) => {
            let at = rollout(resource)
                .and_then(RolloutKind::partition)
                .ok_or_else(|| lacks("partition"))?;
            check_partition(resource, partition)?;
            if object.pointer(at) == Some(partition) {
                return Err(Refused::conflict(format!(
                    "the partition of {name} is {partition} already"
                )));
            }
            Ok(nested(at, partition.clone()))
        }
        Action::Restart { at } if has_template(resource) => {
            let annotations = json!({RESTARTED_AT: at.to_string()});
            Ok(nested("/spec/template/metadata/annotations", annotations))
        }
        Action::Undo { template } if has_template(resource) => {
            let now = object.pointer("/spec/template").unwrap_or(&Value::Null);
            if now == template {
                return Err(Refused::conflict(format!(
                    "{name} has the template of this revision already"
                )));
            }
            Ok(nested(
                "/spec/template",
                changes::merge_patch(now, template),
            ))
        }
        Action::Restart { .. } => Err(lacks("restart")),
        Action::Undo { .. } => Err(lacks("earlier pod templates")),
    }
}

fn has_template(resource: Resource) -> bool {
    matches!(resource, CLONE_SETS | STATEFUL_SETS | DAEMON_SETS)
}

fn check_partition(resource: Resource, partition: &Value) -> Result<(), Refused> {
    let percent = |text: &str| {
        text.strip_suffix('%')?
            .parse::<u8>()
            .ok()
            .filter(|percent| *percent <= 100)
    };
    let is_number = partition
        .as_i64()
        .is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number));
    let is_percent = partition.as_str().and_then(percent).is_some();
    match is_number || (is_percent && resource != STATEFUL_SETS) {
        true => Ok(()),
        false if resource == STATEFUL_SETS => Err(Refused::invalid(format!(
            "the partition {partition} is no number of pods, such as 2"
        ))),
        false => Err(Refused::invalid(format!(
            "the partition {partition} is neither a number of pods, such as 2, nor a percentage, \
             such as \"50%\""
        ))),
    }
}

/// A value within objects, one for each part of a JSON pointer.
fn nested(pointer: &str, value: Value) -> Value {
    let parts = pointer.rsplit('/').filter(|part| !part.is_empty());
    parts.fold(value, |inner, part| json!({part: inner}))
}

/// The effect of a change in a sentence.
fn effect(resource: Resource, action: &Action, object: &Value) -> String {
    match action {
        Action::Pause => "No further pod is updated until the rollout is resumed.".to_owned(),
        Action::Resume => "The rollout goes on.".to_owned(),
        Action::Restart { .. } => {
            "All containers restart, within the limits of the update strategy.".to_owned()
        }
        Action::Undo { .. } => {
            "The template of this revision becomes the update revision, and the pods follow."
                .to_owned()
        }
        Action::Partition(partition) => {
            let kind = rollout(resource);
            let desired = kind.map_or(0, |kind| kind.total(object));
            let kept = kind.map_or(Ok(0), |kind| kind.kept(Some(partition), desired));
            let kept = kept.unwrap_or_default();
            format!(
                "{kept} of {desired} pods stay at the old revision; {} are updated.",
                desired - kept
            )
        }
    }
}

/// How the pods get a new template, as the controller decides it; `None` if that is not known.
async fn way(
    session: &Session,
    resource: Resource,
    (old, new): (&Value, &Value),
) -> Option<String> {
    let cluster = Cluster::read(session).await.ok()?;
    let way = in_place::way(resource, old, new, &cluster).ok()?;
    Some(way.to_string())
}

#[cfg(test)]
mod tests;
