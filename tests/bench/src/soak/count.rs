//! The numbers of objects.

use std::fmt;

use anyhow::Result;
use berth_e2e::objects::{self, kind};
use serde::Serialize;

use super::churn::JOB;
use crate::phases::{NAMESPACE, Program, Stage};

/// The numbers that could grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) pods: usize,
    pub(crate) claims: usize,
    pub(crate) revisions: usize,
    pub(crate) node_images: usize,
    /// Images and pods that NodeImages name.
    pub(crate) entries: usize,
    pub(crate) jobs: usize,
    /// Writes that the controller still expects to see.
    pub(crate) awaited: usize,
}

impl Counts {
    pub(crate) const NAMES: [&'static str; 7] = [
        "pods",
        "claims",
        "revisions",
        "NodeImages",
        "their entries",
        "jobs",
        "writes in mind",
    ];

    /// In the order of the names.
    pub(crate) fn values(&self) -> [usize; 7] {
        [
            self.pods,
            self.claims,
            self.revisions,
            self.node_images,
            self.entries,
            self.jobs,
            self.awaited,
        ]
    }

    /// Counts the objects.
    pub(crate) async fn take(stage: &Stage, program: &Program) -> Result<Self> {
        let client = &stage.client;
        let count = async |kind: &str| {
            objects::list(client, NAMESPACE, kind, "")
                .await
                .map(|all| all.len())
        };
        let images = objects::list(client, "", kind::NODE_IMAGE, "").await?;
        let entries = |image: &serde_json::Value| {
            let spec = &image["spec"];
            spec["images"].as_object().map_or(0, serde_json::Map::len)
                + spec["inspectPods"].as_array().map_or(0, Vec::len)
        };
        Ok(Self {
            pods: count(kind::POD).await?,
            claims: count(kind::CLAIM).await?,
            revisions: count("apps/v1/ControllerRevision").await?,
            node_images: images.len(),
            entries: images.iter().map(entries).sum(),
            jobs: count(JOB).await?,
            awaited: program.awaited().await?,
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = Self::NAMES
            .iter()
            .zip(self.values())
            .map(|(name, value)| format!("{value:>width$}", width = name.len()));
        f.write_str(&columns.collect::<Vec<_>>().join("  "))
    }
}
