//! A workload that cannot be read: it gets the condition `Blocked`, written with no knowledge of
//! the object besides its conditions.

use std::sync::Arc;

use berth_api::names::condition;
use berth_runtime::client;
use berth_runtime::driver::Next;
use berth_runtime::store::event::Odd;
use berth_runtime::{Key, Object, Resource, Store};
use berth_workload::plan::Target;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::status::reported::Reported;
use crate::stores::reads::unreadable_message;

/// The fields that are read of an unreadable object. Fields that may be too large or too deep are
/// left out.
#[derive(Deserialize)]
struct Seen {
    metadata: Version,
    spec: Option<IgnoredAny>,
    status: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    uid: String,
    resource_version: String,
}

/// One round for a workload, by its last readable version, after the store has seen every write for
/// it. If it cannot be read any more, a condition on it says so.
pub(crate) async fn by_last_read<T: Object, F: Future<Output = Next> + Send>(
    context: &Context,
    (store, reported): (&Store<T>, &Reported),
    key: Key,
    round: impl FnOnce(Arc<T>) -> F + Send,
) -> Next {
    let workload = store.get(&key.namespace, &key.name);
    let round = |workload: Arc<T>| async move {
        match context.seen(store, &*workload).await {
            Ok(workload) => round(workload).await,
            Err(next) => next,
        }
    };
    let Some(odd) = store.unreadable(&key.namespace, &key.name) else {
        reported.forget(&key);
        let Some(workload) = workload else {
            return Next::Done;
        };
        return round(workload).await;
    };
    let reported = tell(context, T::RESOURCE, reported, &key, &odd).await;
    let next = match workload {
        Some(workload) => round(workload).await,
        None => {
            // No decision waits for the store to see this write.
            context.expectations.forget(&odd.uid);
            Next::Done
        }
    };
    reported.map_or_else(Next::Retry, |()| next)
}

/// Writes the condition once for each version of a workload.
///
/// # Errors
/// Why the condition is not written.
async fn tell(
    context: &Context,
    resource: Resource,
    reported: &Reported,
    key: &Key,
    odd: &Odd,
) -> Result<(), String> {
    if reported.was_reported(key, &odd.version) {
        return Ok(());
    }
    write_condition(context, resource, odd).await?;
    reported.note(key, &odd.version);
    Ok(())
}

/// Reads the conditions of the workload, adds this one, and writes them, if the workload is still
/// of that version.
async fn write_condition(context: &Context, resource: Resource, odd: &Odd) -> Result<(), String> {
    let path = resource
        .path(&odd.namespace, &odd.name)
        .map_err(|error| error.to_string())?;
    let Seen {
        metadata,
        spec,
        status,
    } = match client::get::<Seen>(&context.client, &path).await {
        Ok(seen) => seen,
        Err(failed) if failed.code == 404 => return Ok(()),
        Err(failed) => return Err(failed.to_string()),
    };
    if metadata.uid != odd.uid || spec.is_none() {
        return Ok(());
    }
    let old = status.unwrap_or_else(|| json!({}));
    let new = with_condition(&old, &unreadable_message(&resource, odd), Timestamp::now());
    let target = Target {
        namespace: odd.namespace.clone(),
        name: odd.name.clone(),
        uid: odd.uid.clone(),
        resource_version: Some(metadata.resource_version),
    };
    let written = context
        .executor
        .write_status(&resource, &target, &old, &new)
        .await;
    written.map(drop).map_err(|failure| failure.message)
}

/// The status with the condition in place of an older one. Counts that the schema demands are 0
/// where there are none.
fn with_condition(old: &Value, message: &str, now: Timestamp) -> Value {
    let mut new = old.as_object().cloned().unwrap_or_default();
    for count in [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updatedReadyReplicas",
    ] {
        new.entry(count).or_insert(json!(0));
    }
    let mut conditions = new
        .remove("conditions")
        .and_then(|c| c.as_array().cloned())
        .unwrap_or_default();
    let reported = conditions
        .iter()
        .any(|c| c["type"] == condition::BLOCKED && c["message"] == message);
    if !reported {
        conditions.retain(|c| c["type"] != condition::BLOCKED);
        let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        conditions.push(json!({
            "type": condition::BLOCKED, "status": "True", "reason": "Unreadable", "message": message,
            "lastUpdateTime": seconds, "lastTransitionTime": seconds,
        }));
    }
    new.insert("conditions".to_owned(), Value::Array(conditions));
    Value::Object(Map::from_iter(new))
}

#[cfg(test)]
mod tests;
