//! `kubectl berth images pull`: an ImagePullJob with a generated name, followed until its end.

use std::time::Duration;

use anyhow::bail;
use berth_api::image::split;
use berth_workload::objects::resource::{IMAGE_PULL_JOBS, NODE_IMAGES, NODES};
use clap::Args;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::super::create::number;
use super::super::why::is_passing;
use super::status::tag_status;
use crate::exit::{Exit, WrongUsage, sentence};
use crate::flags::duration;
use crate::kinds;
use crate::objects::{items, name, number as count, text};
use crate::session::Session;
use crate::text::{clean, error_width, fitted, note, width};
use crate::write::{DryRun, WriteFlags, title};

/// The time between two reads of the job.
const AGAIN: Duration = Duration::from_secs(1);
/// Seconds for which the completed job stays, so that its result can be read.
const TTL: u32 = 3600;
/// The longest part of a generated name that comes from the image.
const LONGEST_STEM: usize = 40;

/// A pull of an image on many nodes.
#[derive(Debug, Args)]
pub struct Pull {
    /// The image.
    pub image: String,
    /// Labels of the nodes, such as disk=ssd or "zone in (a,b)". Without it, all nodes.
    #[arg(long, value_name = "LABELS")]
    pub nodes: Option<String>,
    /// How many nodes pull at a time: a number or a percentage. Without it, one.
    #[arg(long)]
    pub parallelism: Option<String>,
    /// Secrets for the registry.
    #[arg(long, value_delimiter = ',', value_name = "SECRET")]
    pub pull_secrets: Vec<String>,
    /// Follow the pull until its end; the exit code is 1 if a node has failed.
    #[arg(short, long)]
    pub watch: bool,
    /// How long to follow it, such as 5m; 0 sets no limit. Afterwards the exit code is 124.
    #[arg(long, default_value = "0", value_parser = duration, requires = "watch")]
    pub timeout: Duration,
    /// How the job is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

impl Pull {
    /// Creates the job, and follows it with `--watch`.
    ///
    /// # Errors
    /// The command line is wrong, no node has the labels, or the apiserver refused the job.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let suffix: String = std::iter::repeat_with(fastrand::lowercase)
            .take(5)
            .collect();
        let job = self.object(&suffix)?;
        if let Some(labels) = &self.nodes
            && session.list_if_allowed(NODES, "", labels).await? == Ok(Vec::new())
        {
            bail!(
                "no node has the labels {labels:?} of --nodes; see `kubectl get nodes --show-labels`"
            );
        }
        let created = self.write.create(session, IMAGE_PULL_JOBS, job).await?;
        self.write.print(IMAGE_PULL_JOBS, &created, "created")?;
        if !self.watch || self.write.dry_run != DryRun::None {
            return Ok(Exit::Done);
        }
        if self.timeout.is_zero() {
            return self.follow(session, name(&created)).await;
        }
        match timeout(self.timeout, self.follow(session, name(&created))).await {
            Ok(ended) => ended,
            Err(_) => {
                let job = title(IMAGE_PULL_JOBS, name(&created));
                anstream::eprintln!("error: {job} has not ended within {:?}", self.timeout);
                Ok(Exit::TimedOut)
            }
        }
    }

    /// The job, with a name from the image and the suffix.
    fn object(&self, suffix: &str) -> Result<Value, WrongUsage> {
        let (image, tag) = split(&self.image).map_err(WrongUsage)?;
        let mut spec = json!({
            "image": self.image,
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": TTL},
        });
        if let Some(parallelism) = &self.parallelism {
            spec["parallelism"] = number(parallelism)?;
        }
        if let Some(labels) = &self.nodes {
            spec["selector"] = label_selector(labels)?;
        }
        if !self.pull_secrets.is_empty() {
            spec["pullSecrets"] = json!(self.pull_secrets);
        }
        let name = format!("{}-{suffix}", stem(&image, &tag));
        Ok(json!({"metadata": {"name": name}, "spec": spec}))
    }

    /// Prints how far the job is, until it has ended.
    async fn follow(&self, session: &Session, name: &str) -> anyhow::Result<Exit> {
        let kind = kinds::parse("imagepulljobs")?;
        let mut last = String::new();
        loop {
            let job = match session.get(&kind, name).await {
                Ok(job) => job,
                Err(error) if is_passing(&error) => {
                    note(&format!("{}; trying again", sentence(&error)));
                    sleep(AGAIN * 4).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (line, end) = progress(&job);
            if line != last {
                anstream::println!("{}", fitted(&clean(&line), width()));
                last = line;
            }
            match end {
                None => sleep(AGAIN).await,
                Some(Exit::Failed) => {
                    self.report(session, &job).await?;
                    return Ok(Exit::Failed);
                }
                Some(exit) => return Ok(exit),
            }
        }
    }

    /// Prints which nodes have failed, and why.
    async fn report(&self, session: &Session, job: &Value) -> anyhow::Result<()> {
        let read = session.list_if_allowed(NODE_IMAGES, "", "").await?;
        for line in failures(job, &self.image, &read.unwrap_or_default()) {
            anstream::eprintln!("{}", fitted(&clean(&line), error_width()));
        }
        Ok(())
    }
}

/// How far a job is, and its result if it has ended.
fn progress(job: &Value) -> (String, Option<Exit>) {
    let line = match text(job, "/status/message") {
        "" => "waits for the controller",
        message => message,
    };
    let of = |field: &str| count(job, &format!("/status/{field}"));
    let has_ended = job["status"]["completionTime"].is_string();
    let exit = match of("failed") == 0 && of("succeeded") >= of("desired") && of("desired") > 0 {
        true => Exit::Done,
        false => Exit::Failed,
    };
    (line.to_owned(), has_ended.then_some(exit))
}

/// A line for each node that has failed, with the message of its NodeImage.
fn failures(job: &Value, image: &str, node_images: &[Value]) -> Vec<String> {
    let failed = items(job, "/status/failedNodes").filter_map(Value::as_str);
    let line = |node: &str| {
        let of_node = node_images.iter().find(|one| name(one) == node);
        let pull = of_node.and_then(|one| tag_status(one, image));
        match pull.map_or("", |pull| text(pull, "/message")) {
            "" => format!("error: node {node} has not pulled {image}"),
            message => format!("error: node {node} has not pulled {image}: {message}"),
        }
    };
    let lines: Vec<_> = failed.map(line).collect();
    match lines.is_empty() {
        true => vec![format!("error: not all nodes have {image}")],
        false => lines,
    }
}

/// The part of a job's name that comes from its image: `nginx-1-21`.
fn stem(image: &str, tag: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    let tag: String = tag.chars().take(15).collect();
    let allowed = |one: char| match one.to_ascii_lowercase() {
        one if one.is_ascii_alphanumeric() => one,
        _ => '-',
    };
    let name = format!("{last}-{tag}");
    let stem: String = name.chars().map(allowed).take(LONGEST_STEM).collect();
    stem.trim_matches('-').to_owned()
}

/// A label selector from its text: `a=b,c!=d,e in (f,g),h,!i`.
fn label_selector(labels: &str) -> Result<Value, WrongUsage> {
    let (mut equal, mut expressions) = (Map::new(), Vec::new());
    for part in parts(labels) {
        let part = part.trim();
        let wrong = || {
            WrongUsage(format!(
                "--nodes: {part:?} is no label, such as disk=ssd, disk!=hdd, disk or \"zone in (a,b)\""
            ))
        };
        let (key, operator, values) = requirement(part).ok_or_else(wrong)?;
        match (operator, values.as_slice()) {
            ("=", [value]) => {
                equal.insert(key.to_owned(), json!(value));
            }
            ("Exists" | "DoesNotExist", _) => {
                expressions.push(json!({"key": key, "operator": operator}));
            }
            _ => expressions.push(json!({"key": key, "operator": operator, "values": values})),
        }
    }
    let mut selector = json!({});
    if !equal.is_empty() {
        selector["matchLabels"] = json!(equal);
    }
    if !expressions.is_empty() {
        selector["matchExpressions"] = json!(expressions);
    }
    Ok(selector)
}

/// The requirements of a selector: commas in parentheses part values.
fn parts(labels: &str) -> Vec<&str> {
    let mut is_inside = false;
    let parts = labels.split(|one| {
        is_inside = one == '(' || (is_inside && one != ')');
        one == ',' && !is_inside
    });
    parts.collect()
}

/// The key, the operator and the values of a requirement.
fn requirement(part: &str) -> Option<(&str, &'static str, Vec<&str>)> {
    let is_key = |key: &str| {
        let allowed = |one: char| one.is_ascii_alphanumeric() || "-_./".contains(one);
        !key.is_empty() && key.chars().all(allowed)
    };
    let in_set = |set: &'static str| -> Option<(&str, Vec<&str>)> {
        let (key, values) = part.split_once(set)?;
        let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some((key, values.split(',').map(str::trim).collect()))
    };
    let (key, operator, values) = if let Some((key, values)) = in_set(" notin ") {
        (key, "NotIn", values)
    } else if let Some((key, values)) = in_set(" in ") {
        (key, "In", values)
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, "NotIn", vec![value.trim()])
    } else if let Some((key, value)) = part.split_once('=') {
        (key, "=", vec![value.trim_start_matches('=').trim()])
    } else if let Some(key) = part.strip_prefix('!') {
        (key, "DoesNotExist", Vec::new())
    } else {
        (part, "Exists", Vec::new())
    };
    let key = key.trim();
    is_key(key).then_some((key, operator, values))
}

#[cfg(test)]
mod tests;
