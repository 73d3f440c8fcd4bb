//! `kubectl berth top`: CPU and memory of a workload's pods.

use std::collections::BTreeMap;

use berth_workload::objects::quantity::thousandths;
use berth_workload::objects::resource::Resource;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::get::world::{check, pod_query};
use super::images::pods_of;
use crate::exit::{Exit, is_forbidden, sentence};
use crate::kinds;
use crate::objects::{items, name, namespace, selector, text};
use crate::session::Session;
use crate::text::table;

/// Measured pods.
const POD_METRICS: Resource = Resource::new("metrics.k8s.io", "v1beta1", "pods", "PodMetrics");

/// The workload, and the order of its pods.
#[derive(Debug, Args)]
pub struct Top {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// A row for each container.
    #[arg(long)]
    pub containers: bool,
    /// The order of the rows.
    #[arg(long, value_enum, default_value = "name")]
    pub sort_by: Order,
    /// No line with the names of columns.
    #[arg(long)]
    pub no_headers: bool,
}

/// An order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By name.
    Name,
    /// The most CPU first.
    Cpu,
    /// The most memory first.
    Memory,
}

/// What a container or a pod uses and requests, in thousandths of a core and of a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU in use.
    pub cpu: i128,
    /// CPU that is requested.
    pub cpu_request: i128,
    /// Memory in use.
    pub memory: i128,
    /// Memory that is requested.
    pub memory_request: i128,
}

impl Usage {
    const fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            cpu_request: self.cpu_request.saturating_add(other.cpu_request),
            memory: self.memory.saturating_add(other.memory),
            memory_request: self.memory_request.saturating_add(other.memory_request),
        }
    }
}

impl Top {
    /// Prints the table once.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (kind, name) = kinds::object(&self.object)?;
        check(&kind)?;
        let (world, refused) = pods_of(session, &kind, &name).await?;
        if let Some(refused) = refused {
            anyhow::bail!(refused);
        }
        let query = pod_query(world.plural, &world.object);
        let (at, labels) = match query {
            Some(query) => (query.namespace, query.labels),
            None => {
                let labels = selector(&world.object).unwrap_or_default();
                (namespace(&world.object).to_owned(), labels)
            }
        };
        let metrics = match session.list(POD_METRICS, &at, &labels).await {
            Ok(metrics) => metrics,
            Err(error) => match error.downcast_ref::<kube::Error>() {
                Some(failed) if is_absent(failed) => anyhow::bail!(
                    "the cluster measures no pods, because it does not serve metrics.k8s.io: \
                     install metrics-server"
                ),
                Some(failed) if is_forbidden(failed) => {
                    anyhow::bail!(
                        "{}; metrics-server's ClusterRole system:aggregated-metrics-reader grants this",
                        sentence(&error)
                    )
                }
                _ => return Err(error),
            },
        };
        let rows = rows(&world.pods, &metrics, self.containers, self.sort_by);
        if rows.is_empty() {
            anstream::eprintln!("{} {name:?} has no pods", kind.singular());
            return Ok(Exit::Done);
        }
        let header: &[&str] = if self.no_headers { &[] } else { &HEADER };
        anstream::println!("{}", table(header, rows));
        Ok(Exit::Done)
    }
}

const HEADER: [&str; 5] = [
    "NAME",
    "CPU(cores)",
    "CPU/REQUEST",
    "MEMORY(bytes)",
    "MEMORY/REQUEST",
];

/// Whether the cluster does not serve metrics, or their server is away.
fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(refused) if refused.code == 404 || refused.code == 503)
}

/// A row for each pod, or for each of its containers, and one for all.
pub fn rows(
    pods: &[Value],
    metrics: &[Value],
    by_container: bool,
    order: Order,
) -> Vec<Vec<String>> {
    let key = |one: &Value| (namespace(one).to_owned(), name(one).to_owned());
    let measured: BTreeMap<_, _> = metrics.iter().map(|one| (key(one), one)).collect();
    let mut rows: Vec<(String, Option<Usage>)> = Vec::new();
    for pod in pods {
        let of_pod = measured.get(&key(pod)).copied();
        let containers = usages(pod, of_pod);
        if by_container {
            let named = containers.into_iter();
            rows.extend(
                named.map(|(container, usage)| (format!("{}/{container}", name(pod)), usage)),
            );
        } else {
            let all = containers
                .iter()
                .filter_map(|(_, usage)| *usage)
                .reduce(Usage::plus);
            rows.push((name(pod).to_owned(), all));
        }
    }
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    let usage = |row: &(String, Option<Usage>)| row.1.unwrap_or_default();
    match order {
        Order::Name => {}
        Order::Cpu => rows.sort_by_key(|row| -usage(row).cpu),
        Order::Memory => rows.sort_by_key(|row| -usage(row).memory),
    }
    let all = rows.iter().filter_map(|row| row.1).reduce(Usage::plus);
    if rows.len() > 1 {
        rows.push(("total".to_owned(), all));
    }
    rows.into_iter()
        .map(|(name, usage)| cells(name, usage))
        .collect()
}

/// Each container of a pod with its usage, `None` if it is not measured yet.
fn usages(pod: &Value, metrics: Option<&Value>) -> Vec<(String, Option<Usage>)> {
    let mut all = Vec::new();
    for container in items(pod, "/spec/containers") {
        let of = text(container, "/name");
        let measured = metrics
            .and_then(|metrics| items(metrics, "/containers").find(|one| text(one, "/name") == of));
        let read =
            |from: &Value, pointer: &str| thousandths(text(from, pointer)).unwrap_or_default();
        let usage = measured.map(|measured| Usage {
            cpu: read(measured, "/usage/cpu"),
            cpu_request: read(container, "/resources/requests/cpu"),
            memory: read(measured, "/usage/memory"),
            memory_request: read(container, "/resources/requests/memory"),
        });
        all.push((of.to_owned(), usage));
    }
    all
}

fn cells(name: String, usage: Option<Usage>) -> Vec<String> {
    let Some(usage) = usage else {
        return vec![
            name,
            "<unknown>".into(),
            "-".into(),
            "<unknown>".into(),
            "-".into(),
        ];
    };
    vec![
        name,
        format!("{}m", usage.cpu),
        share(usage.cpu, usage.cpu_request),
        format!("{}Mi", usage.memory / 1000 / (1 << 20)),
        share(usage.memory, usage.memory_request),
    ]
}

/// A part as a percentage of a whole; `-` without a whole.
fn share(part: i128, whole: i128) -> String {
    match whole {
        1.. => format!("{}%", part.saturating_mul(100) / whole),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests;
