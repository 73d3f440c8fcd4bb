//! What NodeImages have gone through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail, ensure};
use berth_e2e::{objects, watch};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::images::{asked, told};

/// A NodeImage's name, and what it was; null when it was gone.
type State = (String, Value);

/// A record in the making. It ends with this value.
pub(crate) struct Recorder {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// What was seen so far.
struct Seen {
    /// Every state of every NodeImage, in order.
    states: Vec<State>,
    /// Why that is not all.
    broken: Option<String>,
}

impl Recorder {
    /// Begins to record.
    pub(crate) async fn start(client: &Client) -> Result<Recorder> {
        let api = objects::api_of(client, "", &json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage"}))?;
        let (states, version) = list(&api).await?;
        let seen = Arc::new(Mutex::new(Seen { states, broken: None }));
        let sink = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let store = |node: DynamicObject, is_gone: bool| {
                let mut seen = sink.lock().unwrap_or_else(PoisonError::into_inner);
                match state(&node) {
                    // It pulls no more.
                    Ok((name, _)) if is_gone => seen.states.push((name, Value::Null)),
                    Ok(state) => seen.states.push(state),
                    Err(error) => seen.broken = Some(format!("{error:#}")),
                }
            };
            if let Err(error) = watch::follow(&api, "", version, store).await {
                sink.lock().unwrap_or_else(PoisonError::into_inner).broken = Some(format!("{error:#}"));
            }
        });
        Ok(Recorder { seen, task })
    }

    /// Checks what held at every instant: no more nodes than this were pulling images of the repository, and no node was
    /// asked twice for the same.
    pub(crate) fn check(&self, repository: &str, parallelism: usize) -> Result<()> {
        let Seen { states, broken } = &*self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = broken {
            bail!("the record of NodeImages is not whole: {why}");
        }
        let (mut pulling, mut times) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for (name, node) in states {
            let told = told(node, repository);
            let is_over = |tag: &String| told.get(tag).is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
            if asked(node, repository).iter().all(is_over) {
                pulling.remove(name)
            } else {
                pulling.insert(name)
            };
            ensure!(pulling.len() <= parallelism, "{} nodes pulled at a time: {pulling:?}", pulling.len());
            for tag in node["spec"]["images"][repository]["tags"].as_array().into_iter().flatten() {
                let asked = times.entry((name, tag["tag"].to_string())).or_default();
                asked.insert(tag["createdAt"].to_string());
                ensure!(asked.len() == 1, "node {name} was asked for tag {} twice: {asked:?}", tag["tag"]);
            }
        }
        ensure!(!times.is_empty(), "no node was asked for anything");
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn list(api: &Api<DynamicObject>) -> Result<(Vec<State>, String)> {
    let list = api.list(&ListParams::default()).await?;
    let states = list.items.iter().map(state).collect::<Result<_>>()?;
    Ok((states, list.metadata.resource_version.unwrap_or_default()))
}

fn state(node: &DynamicObject) -> Result<State> {
    Ok((node.metadata.name.clone().unwrap_or_default(), serde_json::to_value(node)?))
}
