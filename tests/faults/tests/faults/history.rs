//! The history of the objects of a kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::{objects, watch};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::world::PATIENCE;

/// An object's name and its state; null after its deletion.
pub(crate) type State = (String, Value);

/// A running record. It ends when this value is dropped.
pub(crate) struct History {
    api: Api<DynamicObject>,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// The states seen so far.
struct Seen {
    /// Every state of every object, in order.
    states: Vec<State>,
    /// The reason why states are missing.
    broken: Option<String>,
}

impl History {
    /// Begins to record the objects of a kind (`GROUP/VERSION/KIND`), of one namespace if the kind
    /// has namespaces.
    pub(crate) async fn start(client: &Client, namespace: &str, kind: &str) -> Result<History> {
        let (version, kind) = kind.rsplit_once('/').context("no version")?;
        let api = objects::api_of(
            client,
            namespace,
            &json!({"apiVersion": version, "kind": kind}),
        )?;
        let (states, version) = list(&api).await?;
        let seen = Arc::new(Mutex::new(Seen {
            states,
            broken: None,
        }));
        let (sink, followed) = (Arc::clone(&seen), api.clone());
        let task = tokio::spawn(async move {
            let store = |object: DynamicObject, is_gone: bool| {
                let mut seen = lock(&sink);
                match state(&object) {
                    Ok((name, _)) if is_gone => seen.states.push((name, Value::Null)),
                    Ok(state) => seen.states.push(state),
                    Err(error) => seen.broken = Some(format!("{error:#}")),
                }
            };
            if let Err(error) = watch::follow(&followed, "", version, store).await {
                lock(&sink).broken = Some(format!("{error:#}"));
            }
        });
        Ok(History { api, seen, task })
    }

    /// All states so far, in order.
    pub(crate) fn states(&self) -> Result<Vec<State>> {
        let Seen { states, broken } = &*lock(&self.seen);
        match broken {
            Some(why) => bail!("the record is not whole: {why}"),
            None => Ok(states.clone()),
        }
    }

    /// All states until now, after waiting for events that are on their way.
    pub(crate) async fn until_now(&self) -> Result<Vec<State>> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let (now, _) = list(&self.api).await?;
        let now: BTreeMap<_, _> = now
            .iter()
            .map(|(name, object)| (name.clone(), version(object)))
            .collect();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let states = self.states()?;
            let has = |name: &String, wanted: &Value| {
                states
                    .iter()
                    .any(|(n, object)| n == name && version(object) == *wanted)
            };
            let last: BTreeMap<_, _> = states.iter().map(|(name, object)| (name, object)).collect();
            let has_gone = last
                .iter()
                .all(|(name, object)| object.is_null() || now.contains_key(*name));
            if has_gone && now.iter().all(|(name, version)| has(name, version)) {
                return Ok(states);
            }
            ensure!(
                Instant::now() < deadline,
                "the record does not come to what there is: {now:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock()
}

async fn list(api: &Api<DynamicObject>) -> Result<(Vec<State>, String)> {
    let list = api.list(&ListParams::default()).await?;
    let states = list.items.iter().map(state).collect::<Result<_>>()?;
    Ok((states, list.metadata.resource_version.unwrap_or_default()))
}

fn state(object: &DynamicObject) -> Result<State> {
    Ok((
        object.metadata.name.clone().unwrap_or_default(),
        serde_json::to_value(object)?,
    ))
}
