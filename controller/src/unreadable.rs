//! A CloneSet that cannot be read: the condition `Blocked` on it, written without knowing more of it than its conditions.

use std::sync::Arc;
use std::time::Duration;

use berth_api::names::condition;
use berth_runtime::client;
use berth_runtime::executor::Executor;
use berth_runtime::feed::Odd;
use berth_runtime::object::CLONE_SETS;
use berth_workload::plan::Target;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;

/// How often it is tried, and the pause in between: the object may change meanwhile, and the first leader has still to be
/// elected when the first list comes.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_secs(3);

/// What is told of every CloneSet that cannot be read.
pub(crate) type Tell = Arc<dyn Fn(&Odd, String) + Send + Sync>;

/// Writes the condition in the background. A follower's executor refuses to write; it gives up after a while.
pub(crate) fn teller(client: Client, executor: Arc<Executor>) -> Tell {
    Arc::new(move |odd, message| {
        let Ok(runtime) = Handle::try_current() else { return };
        let (client, executor, odd) = (client.clone(), executor.clone(), odd.clone());
        runtime.spawn(async move {
            for _ in 0..TRIES {
                match tell(&client, &executor, &odd, &message).await {
                    Ok(()) => return,
                    Err(error) => tracing::debug!(odd.namespace, odd.name, error, "condition not written"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    })
}

/// Reads the object as it is, and replaces its conditions with those and one more, if it is still of that version.
async fn tell(client: &Client, executor: &Executor, odd: &Odd, message: &str) -> Result<(), String> {
    let path = CLONE_SETS.path(&odd.namespace, &odd.name);
    let object: Value = match client::get(client, &path).await {
        Ok(object) => object,
        Err(failed) if failed.code == 404 => return Ok(()),
        Err(failed) => return Err(failed.to_string()),
    };
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if object["metadata"]["uid"] != *odd.uid || object["spec"].is_null() {
        return Ok(());
    }
    let old = object.get("status").cloned().unwrap_or_else(|| json!({}));
    let new = with_condition(&old, message, Timestamp::now());
    let target = Target {
        namespace: odd.namespace.clone(),
        name: odd.name.clone(),
        uid: odd.uid.clone(),
        resource_version: Some(version.to_owned()),
    };
    executor.write_status(&CLONE_SETS, &target, &old, &new).await.map(drop).map_err(|failure| failure.message)
}

/// The status with the condition in place of an older one. Counts that the schema demands are 0 where there are none.
fn with_condition(old: &Value, message: &str, now: Timestamp) -> Value {
    let mut new = old.as_object().cloned().unwrap_or_default();
    for count in ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "updatedReadyReplicas"] {
        new.entry(count).or_insert(json!(0));
    }
    let mut conditions = new.remove("conditions").and_then(|c| c.as_array().cloned()).unwrap_or_default();
    let told = conditions.iter().any(|c| c["type"] == condition::BLOCKED && c["message"] == message);
    if !told {
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
mod tests {
    use super::*;

    #[test]
    fn the_condition_joins_what_is_there_and_is_written_once() {
        let now = Timestamp::from_second(0).unwrap();
        let old = json!({"replicas": 3, "odd": {"x": 1}, "conditions": [{"type": "FailedScale"}, {"type": "Blocked"}]});
        let new = with_condition(&old, "spec: broken", now);
        assert_eq!((&new["replicas"], &new["odd"]["x"]), (&json!(3), &json!(1)));
        let types: Vec<_> = new["conditions"].as_array().unwrap().iter().map(|c| c["type"].clone()).collect();
        assert_eq!(types, ["FailedScale", "Blocked"]);
        assert_eq!(new["conditions"][1]["message"], "spec: broken");
        let later = Timestamp::from_second(99).unwrap();
        assert_eq!(with_condition(&new, "spec: broken", later), new, "nothing to write again");
    }
}
