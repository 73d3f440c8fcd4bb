//! Rows of a workload's objects that are no pods: pulls, subsets and their workloads.

use berth_api::names::label;
use serde_json::Value;

use super::{Row, Scene};
use crate::commands::get::health::{self, State};
use crate::commands::get::pods::label_of;
use crate::commands::get::revisions::is_own;
use crate::commands::get::tone::Tone;
use crate::objects::{items, name, number, text};

impl Scene<'_> {
    pub(super) fn jobs(&self) -> Vec<Row> {
        let uid = text(&self.world.object, "/metadata/uid");
        let is_own =
            |job: &&Value| items(job, "/metadata/ownerReferences").any(|owner| owner["uid"] == uid);
        let jobs = self.world.jobs.iter().filter(is_own);
        let row = |job: &Value| {
            let of = |field: &str| number(job, &format!("/status/{field}"));
            let (desired, succeeded, failed) = (of("desired"), of("succeeded"), of("failed"));
            let is_complete = job["status"]["completionTime"].is_string();
            let (tone, word) = match (is_complete, failed) {
                (true, 0) => (Tone::Good, "Complete"),
                (true, _) => (Tone::Bad, "Failed"),
                (false, 0) => (Tone::Waiting, "Pulling"),
                (false, _) => (Tone::Warning, "Pulling"),
            };
            let mut info = format!(
                "{}: {succeeded} of {desired} nodes",
                text(job, "/spec/image")
            );
            if failed > 0 {
                info += &format!(", {failed} failed");
            }
            Row {
                kind: "ImagePullJob",
                tone,
                status: word.to_owned(),
                age: self.age(job),
                info,
                ..Row::new(1, "⊞", name(job).to_owned())
            }
        };
        jobs.map(row).collect()
    }

    /// The subsets of a UnitedDeployment, each with its workload.
    pub(super) fn subsets(&self) -> Vec<Row> {
        let object = &self.world.object;
        let statuses = || items(object, "/status/subsetStatuses");
        let mut rows = Vec::new();
        for subset in items(object, "/spec/topology/subsets") {
            let of = text(subset, "/name");
            let status = statuses().find(|one| text(one, "/name") == of);
            let count = |pointer: &str| status.map_or(0, |status| number(status, pointer));
            let (ready, replicas) = (count("/readyReplicas"), count("/replicas"));
            let parts = [("partition", "/partition"), ("reserved", "/reservedPods")];
            let parts = parts.map(|(name, pointer)| (name, count(pointer)));
            let parts = parts.iter().filter(|(_, count)| *count > 0);
            let parts: Vec<_> = parts
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            rows.push(Row {
                tone: if ready >= replicas {
                    Tone::Good
                } else {
                    Tone::Waiting
                },
                status: format!("{ready}/{replicas}"),
                info: parts.join(", "),
                ..Row::new(1, "▣", format!("subset {of}"))
            });
            let is_its =
                |one: &&Value| is_own(self.world, one) && label_of(one, label::SUBSET_NAME) == of;
            let workloads = self.world.workloads.iter().filter(is_its);
            rows.extend(workloads.map(|one| self.workload(one)));
        }
        rows
    }

    fn workload(&self, workload: &Value) -> Row {
        let (kind, plural) = match text(workload, "/kind") {
            "Deployment" => ("Deployment", "deployments"),
            "StatefulSet" => ("StatefulSet", "statefulsets"),
            _ => ("CloneSet", "clonesets"),
        };
        let State { health, counts, .. } = health::state(plural, workload);
        Row {
            kind,
            tone: health.into(),
            status: health.word().to_owned(),
            age: self.age(workload),
            info: format!(
                "desired {}, updated {}, ready {}",
                counts.desired, counts.updated, counts.ready
            ),
            ..Row::new(2, "⟳", name(workload).to_owned())
        }
    }
}
