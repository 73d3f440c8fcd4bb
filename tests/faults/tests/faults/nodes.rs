//! The history of NodeImages.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use berth_e2e::objects::kind;
use kube::Client;

use crate::history::History;
use crate::images::{asked, told};

/// A running record. It ends when this value is dropped.
pub(crate) struct Recorder(History);

impl Recorder {
    /// Begins to record.
    pub(crate) async fn start(client: &Client) -> Result<Recorder> {
        History::start(client, "", kind::NODE_IMAGE)
            .await
            .map(Recorder)
    }

    /// Checks for every instant that no more nodes than this were pulling images of the repository,
    /// and that no NodeImage requested the same pull twice.
    pub(crate) fn check(&self, repository: &str, parallelism: usize) -> Result<()> {
        let (mut pulling, mut times) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
        for (name, node) in &self.0.states()? {
            // A deleted NodeImage requests nothing, so its node pulls no more.
            let told = told(node, repository);
            let is_over = |tag: &String| {
                told.get(tag)
                    .is_some_and(|phase| phase == "Succeeded" || phase == "Failed")
            };
            if asked(node, repository).iter().all(is_over) {
                pulling.remove(name)
            } else {
                pulling.insert(name.clone())
            };
            ensure!(
                pulling.len() <= parallelism,
                "{} nodes pulled at a time: {pulling:?}",
                pulling.len()
            );
            for tag in node["spec"]["images"][repository]["tags"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let asked = times
                    .entry((name.clone(), tag["tag"].to_string()))
                    .or_default();
                asked.insert(tag["createdAt"].to_string());
                ensure!(
                    asked.len() == 1,
                    "node {name} was asked for tag {} twice: {asked:?}",
                    tag["tag"]
                );
            }
        }
        ensure!(!times.is_empty(), "no node was asked for anything");
        Ok(())
    }
}
