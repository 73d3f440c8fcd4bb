//! `kubectl berth create`: objects of Berth's kinds that a command line can describe.

use anyhow::bail;
use berth_api::image::split;
use berth_api::name::Name;
use berth_kinds::broadcastjob::BROADCAST_JOBS;
use berth_workload::objects::resource::{CONTAINER_RECREATE_REQUESTS, IMAGE_PULL_JOBS};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::exit::{Exit, WrongUsage};
use crate::kinds;
use crate::objects;
use crate::session::Session;
use crate::write::WriteFlags;

/// The kind of the object.
#[derive(Debug, Args)]
pub struct Create {
    /// The kind.
    #[command(subcommand)]
    pub kind: Kind,
}

/// The kinds that can be created.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// A pod on each node, once: `create broadcastjob NAME --image IMAGE -- COMMAND`.
    #[command(visible_alias = "bcj", alias = "broadcastJob")]
    Broadcastjob(BroadcastJob),
    /// A restart of containers of a pod in place: `create crr --pod POD`.
    #[command(visible_alias = "crr", alias = "ContainerRecreateRequest")]
    Containerrecreaterequest(RecreateRequest),
    /// A pull of an image on many nodes: `create imagepulljob NAME --image IMAGE`.
    #[command(alias = "ImagePullJob")]
    Imagepulljob(PullJob),
}

/// A BroadcastJob.
#[derive(Debug, Args)]
pub struct BroadcastJob {
    /// Its name.
    pub name: String,
    /// The image of its pods.
    #[arg(long)]
    pub image: String,
    /// On how many nodes a pod runs at a time: a number or a percentage.
    #[arg(long)]
    pub parallelism: Option<String>,
    /// Labels of the nodes, such as disk=ssd,zone=a.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub node_selector: Vec<String>,
    /// The command of the container; without it, that of the image.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// How the object is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// A ContainerRecreateRequest.
#[derive(Debug, Args)]
pub struct RecreateRequest {
    /// Its name; without it, that of the pod and five characters.
    pub name: Option<String>,
    /// The pod.
    #[arg(short, long)]
    pub pod: String,
    /// The containers, in the order in which they stop; without it, all that are no init
    /// containers.
    #[arg(
        short,
        long = "containers",
        visible_alias = "container",
        value_delimiter = ','
    )]
    pub container: Vec<String>,
    /// Seconds for which the pod is not ready before the first container stops.
    #[arg(
        long,
        visible_alias = "unreadyGracePeriodSeconds",
        value_name = "SECONDS"
    )]
    pub unready_grace: Option<u32>,
    /// Seconds that a restarted container must have run.
    #[arg(long, visible_alias = "minStartedSeconds", value_name = "SECONDS")]
    pub min_started: Option<u32>,
    /// Stop a container only when the one before it has restarted.
    #[arg(long)]
    pub ordered: bool,
    /// Seconds after which the request is given up; 0 for no limit.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub deadline: u32,
    /// Seconds after which the completed request is deleted.
    #[arg(long, default_value_t = 1800, value_name = "SECONDS")]
    pub ttl: u32,
    /// How the object is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// An ImagePullJob.
#[derive(Debug, Args)]
pub struct PullJob {
    /// Its name.
    pub name: String,
    /// The image.
    #[arg(long)]
    pub image: String,
    /// How many nodes pull at a time: a number or a percentage. Without it, one.
    #[arg(long)]
    pub parallelism: Option<String>,
    /// Labels of the nodes, such as disk=ssd,zone=a. Without it, all nodes.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub node_selector: Vec<String>,
    /// Secrets for the registry.
    #[arg(long, value_delimiter = ',', value_name = "SECRET")]
    pub pull_secrets: Vec<String>,
    /// How the object is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

impl Create {
    /// Creates the object.
    ///
    /// # Errors
    /// The command line is wrong, or the apiserver refused the object.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (resource, write, object) = match &self.kind {
            Kind::Broadcastjob(job) => (BROADCAST_JOBS, job.write, job.object()?),
            Kind::Imagepulljob(job) => (IMAGE_PULL_JOBS, job.write, job.object()?),
            Kind::Containerrecreaterequest(request) => {
                let pod = session.get(&kinds::parse("pod")?, &request.pod).await?;
                let suffix: String = std::iter::repeat_with(fastrand::lowercase)
                    .take(5)
                    .collect();
                let object = request.object(&pod, &suffix)?;
                (CONTAINER_RECREATE_REQUESTS, request.write, object)
            }
        };
        let name = objects::name(&object);
        Name::parse(name).map_err(|error| WrongUsage(error.to_string()))?;
        let created = write.create(session, resource, object).await?;
        write.print(resource, &created, "created")?;
        Ok(Exit::Done)
    }
}

impl BroadcastJob {
    fn object(&self) -> Result<Value, WrongUsage> {
        split(&self.image).map_err(WrongUsage)?;
        let mut container = json!({"name": "main", "image": self.image});
        if !self.command.is_empty() {
            container["command"] = json!(self.command);
        }
        let mut pod = json!({"containers": [container], "restartPolicy": "Never"});
        if !self.node_selector.is_empty() {
            pod["nodeSelector"] = json!(labels(&self.node_selector)?);
        }
        let mut spec = json!({"template": {"spec": pod}});
        if let Some(parallelism) = &self.parallelism {
            spec["parallelism"] = number(parallelism)?;
        }
        Ok(json!({"metadata": {"name": self.name}, "spec": spec}))
    }
}

impl PullJob {
    fn object(&self) -> Result<Value, WrongUsage> {
        split(&self.image).map_err(WrongUsage)?;
        let mut spec = json!({"image": self.image});
        if let Some(parallelism) = &self.parallelism {
            spec["parallelism"] = number(parallelism)?;
        }
        if !self.node_selector.is_empty() {
            spec["selector"] = json!({"matchLabels": labels(&self.node_selector)?});
        }
        if !self.pull_secrets.is_empty() {
            spec["pullSecrets"] = json!(self.pull_secrets);
        }
        Ok(json!({"metadata": {"name": self.name}, "spec": spec}))
    }
}

impl RecreateRequest {
    /// The request for this pod. A name that is made has the suffix.
    fn object(&self, pod: &Value, suffix: &str) -> anyhow::Result<Value> {
        let containers = objects::items(pod, "/spec/containers");
        let all: Vec<_> = containers.map(|one| objects::text(one, "/name")).collect();
        let init = objects::items(pod, "/spec/initContainers");
        let sidecars = init.filter(|one| objects::text(one, "/restartPolicy") == "Always");
        let sidecars: Vec<_> = sidecars.map(|one| objects::text(one, "/name")).collect();
        let is_known = |name: &&str| all.contains(name) || sidecars.contains(name);
        let chosen: Vec<_> = match self.container.is_empty() {
            true => all.clone(),
            false => self.container.iter().map(String::as_str).collect(),
        };
        if let Some(unknown) = chosen.iter().find(|name| !is_known(name)) {
            bail!(
                "pod {} has no container {unknown:?}; it has {}",
                objects::name(pod),
                [all, sidecars].concat().join(", ")
            );
        }
        let mut strategy = Map::new();
        let seconds = [
            ("unreadyGracePeriodSeconds", self.unready_grace),
            ("minStartedSeconds", self.min_started),
        ];
        for (field, value) in seconds {
            strategy.extend(value.map(|value| (field.to_owned(), json!(value))));
        }
        if self.ordered {
            strategy.insert("orderedRecreate".to_owned(), json!(true));
        }
        let containers: Vec<_> = chosen.iter().map(|name| json!({"name": name})).collect();
        let mut spec = json!({
            "podName": objects::name(pod),
            "containers": containers,
            "ttlSecondsAfterFinished": self.ttl,
        });
        if !strategy.is_empty() {
            spec["strategy"] = json!(strategy);
        }
        if self.deadline > 0 {
            spec["activeDeadlineSeconds"] = json!(self.deadline);
        }
        let made = || format!("{}-{suffix}", objects::name(pod));
        let name = self.name.clone().unwrap_or_else(made);
        Ok(json!({"metadata": {"name": name}, "spec": spec}))
    }
}

/// A number, or a percentage.
pub(super) fn number(text: &str) -> Result<Value, WrongUsage> {
    match (text.parse::<i32>(), text.strip_suffix('%')) {
        (Ok(number), _) if number >= 0 => Ok(json!(number)),
        (Err(_), Some(percent)) if percent.parse::<u8>().is_ok() => Ok(json!(text)),
        _ => Err(WrongUsage(format!(
            "--parallelism: {text:?} is neither a number nor a percentage, such as 5 or 20%"
        ))),
    }
}

/// Labels from `KEY=VALUE`.
fn labels(pairs: &[String]) -> Result<Map<String, Value>, WrongUsage> {
    let read = |pair: &String| match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), json!(value))),
        _ => Err(WrongUsage(format!(
            "--node-selector: {pair:?} is not KEY=VALUE"
        ))),
    };
    pairs.iter().map(read).collect()
}

#[cfg(test)]
mod tests;
