//! `kubectl berth expose` and `kubectl berth autoscale`: a Service for the pods of a workload, and
//! a HorizontalPodAutoscaler for its replicas.

use anyhow::bail;
use berth_api::name::Name;
use berth_kinds::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_workload::objects::quantity;
use berth_workload::objects::resource::{CLONE_SETS, DAEMON_SETS, Resource, STATEFUL_SETS};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::exit::{Exit, WrongUsage};
use crate::kinds;
use crate::objects;
use crate::pod_spec;
use crate::session::Session;
use crate::text::clean_lines;
use crate::write::WriteFlags;

/// Services.
const SERVICES: Resource = Resource::new("", "v1", "services", "Service");
/// HorizontalPodAutoscalers.
pub(super) const AUTOSCALERS: Resource = Resource::new(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
);

/// The workload, and its Service.
#[derive(Debug, Args)]
pub struct Expose {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// The port of the Service; without it, the ports of the pods' containers.
    #[arg(long)]
    pub port: Option<u16>,
    /// The port of the pods, a number or a name; without it, that of the Service.
    #[arg(long)]
    pub target_port: Option<String>,
    /// The name of the Service; without it, that of the workload.
    #[arg(long)]
    pub name: Option<String>,
    /// The type of the Service.
    #[arg(
        long = "type",
        value_enum,
        ignore_case = true,
        default_value = "ClusterIP"
    )]
    pub kind: ServiceType,
    /// The protocol.
    #[arg(long, value_enum, ignore_case = true)]
    pub protocol: Option<Protocol>,
    /// The address of the Service; `None` makes a headless one.
    #[arg(long = "cluster-ip")]
    pub cluster_ip: Option<String>,
    /// How the Service is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

/// The types of Services that select pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServiceType {
    /// An address within the cluster.
    #[value(name = "ClusterIP")]
    ClusterIp,
    /// A port of each node.
    #[value(name = "NodePort")]
    NodePort,
    /// An address of the cloud.
    #[value(name = "LoadBalancer")]
    LoadBalancer,
}

/// The protocols of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Expose {
    /// Creates the Service.
    ///
    /// # Errors
    /// A Service cannot select the pods, or the apiserver refused it.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (kind, name) = kinds::object(&self.object)?;
        let known = [CLONE_SETS, STATEFUL_SETS, DAEMON_SETS, UNITED_DEPLOYMENTS];
        if !known.contains(&kind.resource) {
            let singular = kind.singular();
            return Err(WrongUsage(format!("a {singular} cannot be exposed")).into());
        }
        let workload = session.get(&kind, &name).await?;
        let service = self.service(kind.resource, &workload)?;
        let created = self.write.create(session, SERVICES, service).await?;
        self.write.print(SERVICES, &created, "exposed")?;
        Ok(Exit::Done)
    }

    fn service(&self, resource: Resource, workload: &Value) -> anyhow::Result<Value> {
        let selector = &workload["spec"]["selector"];
        let is_simple = selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty);
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let Some(labels) = labels.filter(|labels| is_simple && !labels.is_empty()) else {
            bail!(
                "{}: spec.selector has more than matchLabels, and a Service selects by labels alone; create the \
                 Service from a manifest",
                objects::name(workload)
            );
        };
        let name = self.name.as_deref().unwrap_or(objects::name(workload));
        Name::parse(name).map_err(|error| WrongUsage(error.to_string()))?;
        let mut spec = json!({
            "selector": labels,
            "ports": self.ports(resource, workload)?,
            "type": value_name(self.kind),
        });
        if let Some(address) = &self.cluster_ip {
            spec["clusterIP"] = json!(address);
        }
        let mut metadata = json!({"name": name});
        if let Some(labels) = workload["metadata"].get("labels") {
            metadata["labels"] = labels.clone();
        }
        Ok(json!({"metadata": metadata, "spec": spec}))
    }

    fn ports(&self, resource: Resource, workload: &Value) -> anyhow::Result<Value> {
        let protocol = self.protocol.map(value_name);
        let target = self
            .target_port
            .as_ref()
            .map(|text| match text.parse::<u16>() {
                Ok(number) => json!(number),
                Err(_) => json!(text),
            });
        let port = |number: &Value, protocol: &str| {
            let target = target.as_ref().unwrap_or(number);
            json!({"port": number, "targetPort": target, "protocol": protocol})
        };
        if let Some(number) = self.port {
            let protocol = protocol.as_deref().unwrap_or("TCP");
            return Ok(json!([port(&json!(number), protocol)]));
        }
        let at = pod_spec::pointer(resource, workload)?;
        let containers = objects::items(workload, &format!("{at}/containers"));
        let listed = containers.flat_map(|container| objects::items(container, "/ports"));
        let mut ports: Vec<_> = listed
            .map(|one| {
                let own = one["protocol"].as_str().unwrap_or("TCP");
                port(&one["containerPort"], protocol.as_deref().unwrap_or(own))
            })
            .collect();
        if ports.is_empty() {
            bail!("the containers of the pods list no ports: use --port");
        }
        if ports.len() > 1 {
            for (number, one) in ports.iter_mut().enumerate() {
                one["name"] = json!(format!("port-{}", number + 1));
            }
        }
        Ok(json!(ports))
    }
}

fn value_name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The workload, and the bounds of its replicas.
#[derive(Debug, Args)]
pub struct Autoscale {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// The lowest number of replicas.
    #[arg(long, default_value_t = 1)]
    pub min: u32,
    /// The highest number of replicas.
    #[arg(long)]
    pub max: u32,
    /// CPU of a pod: a percentage of its request, such as 80%, or an amount, such as 500m.
    #[arg(long)]
    pub cpu: Option<String>,
    /// Memory of a pod: a percentage of its request, such as 80%, or an amount, such as 1Gi.
    #[arg(long)]
    pub memory: Option<String>,
    /// The name of the HorizontalPodAutoscaler; without it, that of the workload.
    #[arg(long)]
    pub name: Option<String>,
    /// How the HorizontalPodAutoscaler is written.
    #[command(flatten)]
    pub write: WriteFlags,
}

impl Autoscale {
    /// Creates the HorizontalPodAutoscaler.
    ///
    /// # Errors
    /// The kind has no replicas, the bounds are wrong, or the apiserver refused it.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let (kind, name) = kinds::object(&self.object)?;
        let known = [CLONE_SETS, STATEFUL_SETS, UNITED_DEPLOYMENTS];
        if !known.contains(&kind.resource) {
            let singular = kind.singular();
            return Err(WrongUsage(format!(
                "a {singular} has no replicas; a cloneset, a statefulset and a uniteddeployment have"
            ))
            .into());
        }
        let autoscaler = self.autoscaler(kind.resource, &name)?;
        let workload = session.get(&kind, &name).await?;
        for note in self.lacking(kind.resource, &workload)? {
            anstream::eprintln!("note: {}", clean_lines(&note));
        }
        let created = self.write.create(session, AUTOSCALERS, autoscaler).await?;
        self.write.print(AUTOSCALERS, &created, "autoscaled")?;
        Ok(Exit::Done)
    }

    fn targets(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let all = [("cpu", &self.cpu), ("memory", &self.memory)];
        all.into_iter()
            .filter_map(|(name, target)| target.as_ref().map(|target| (name, target)))
    }

    fn autoscaler(&self, resource: Resource, workload: &str) -> Result<Value, WrongUsage> {
        if self.min == 0 || self.max < self.min {
            return Err(WrongUsage(format!(
                "--min {} and --max {}: use 1 or more, and --max not below --min",
                self.min, self.max
            )));
        }
        let metrics: Vec<_> = self
            .targets()
            .map(|(name, target)| Ok(json!({"type": "Resource", "resource": {"name": name, "target": value_of(name, target)?}})))
            .collect::<Result<_, WrongUsage>>()?;
        if metrics.is_empty() {
            return Err(WrongUsage(
                "name a target: --cpu 80%, or --memory".to_owned(),
            ));
        }
        let name = self.name.as_deref().unwrap_or(workload);
        Name::parse(name).map_err(|error| WrongUsage(error.to_string()))?;
        Ok(json!({
            "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": resource.api_version(), "kind": resource.kind, "name": workload},
                "minReplicas": self.min,
                "maxReplicas": self.max,
                "metrics": metrics,
            },
        }))
    }

    /// Notes on containers without the request that a percentage needs.
    fn lacking(&self, resource: Resource, workload: &Value) -> anyhow::Result<Vec<String>> {
        let at = pod_spec::pointer(resource, workload)?;
        let mut notes = Vec::new();
        for (name, target) in self.targets() {
            if !target.ends_with('%') {
                continue;
            }
            let lacks = |container: &&Value| {
                let resources = container.get("resources");
                let of = |list| {
                    resources
                        .and_then(|all| all.get(list))
                        .and_then(|all| all.get(name))
                };
                of("requests").is_none() && of("limits").is_none()
            };
            let containers = objects::items(workload, &format!("{at}/containers"));
            if let Some(container) = containers.into_iter().find(lacks) {
                notes.push(format!(
                    "container {} requests no {name}, so that no percentage of it is known; set it by `set resources`",
                    objects::text(container, "/name")
                ));
            }
        }
        Ok(notes)
    }
}

/// The target of a metric. An amount of CPU without a unit is thousandths, as for kubectl.
fn value_of(name: &str, target: &str) -> Result<Value, WrongUsage> {
    let wrong = || {
        WrongUsage(format!(
            "--{name} {target:?}: use a percentage or an amount, such as 80% or 500m"
        ))
    };
    if let Some(percent) = target.strip_suffix('%') {
        let percent: u32 = percent
            .parse()
            .ok()
            .filter(|percent| *percent > 0)
            .ok_or_else(wrong)?;
        return Ok(json!({"type": "Utilization", "averageUtilization": percent}));
    }
    let is_bare = name == "cpu" && target.parse::<u32>().is_ok();
    let amount = if is_bare {
        format!("{target}m")
    } else {
        target.to_owned()
    };
    match quantity::thousandths(&amount) {
        Some(amount) if amount > 0 => {}
        _ => return Err(wrong()),
    }
    Ok(json!({"type": "AverageValue", "averageValue": amount}))
}

#[cfg(test)]
mod tests;
