//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use berth_api::kinds::releases::RELEASES;
use berth_api::name::{InvalidName, Name, Namespace};
use berth_api::weight::DEFAULT_MAX_BYTES;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Keeps Kubernetes workloads moored: pods are upgraded in place, on their node, with their IP, and
/// every step is verified.
#[derive(Debug, Parser)]
#[command(name = "berth-controller", version)]
pub struct Cli {
    /// What to do; without a command, run the controller.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the controller.
    #[command(flatten)]
    pub run: Run,
    /// `json` for machines, `text` for people.
    #[arg(
        long,
        env = "LOG_FORMAT",
        value_enum,
        default_value = "json",
        global = true
    )]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Plain text.
    Text,
}

/// Commands beside running.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Store objects as a release of OpenKruise knows them, so that its definitions can be applied.
    /// It needs the rights of an administrator, and the controller must still run:
    /// charts/berth/TAKEOVER.md has the commands.
    PrepareReturn(PrepareReturn),
}

/// To which release, and with which rights.
#[derive(Debug, Args)]
pub struct PrepareReturn {
    /// The release of OpenKruise.
    #[arg(long, value_name = "VERSION", value_parser = PossibleValuesParser::new(RELEASES.iter().map(|release| release.version)))]
    pub to: String,
    /// Read the token of a service account from the standard input, and use it in place of the
    /// controller's own.
    #[arg(long)]
    pub token_stdin: bool,
}

/// Flags of the controller.
#[derive(Debug, Args)]
pub struct Run {
    /// Stand for election before acting, so that one replica acts at a time.
    #[arg(long, env = "LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub leader_elect: bool,
    /// Our namespace: of the lease, the certificates' Secret and the Services.
    #[arg(long, env = "POD_NAMESPACE", default_value = "kruise-system", value_parser = namespace)]
    pub namespace: String,
    /// Namespace of the lease, if another.
    #[arg(long, value_parser = namespace)]
    pub leader_elect_namespace: Option<String>,
    /// Name of the lease.
    #[arg(long, default_value = "kruise-manager", value_parser = name)]
    pub leader_elect_name: String,
    /// How long others leave a lease alone that is not renewed; longer than the renew deadline.
    #[arg(long, default_value = "4s", value_parser = duration)]
    pub lease_duration: Duration,
    /// How long the leader goes on without a renewal; more than 1.2 times the retry period.
    #[arg(long, default_value = "3s", value_parser = duration)]
    pub renew_deadline: Duration,
    /// How often the lease is renewed. Another replica sees at once that it is given back, by a
    /// watch.
    #[arg(long, default_value = "1500ms", value_parser = duration)]
    pub retry_period: Duration,
    /// How long one write may take. What became of a write without an answer is known after this
    /// time, and the object is not written before. Where writes turn out to need more time than the
    /// lease leaves them, the leader takes it for longer, for some minutes: until then, one that
    /// dies is followed later.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub write_timeout: Duration,
    /// Where `/metrics` is served.
    #[arg(long, env = "METRICS_BIND_ADDRESS", default_value = ":8080", value_parser = address)]
    pub metrics_bind_address: SocketAddr,
    /// Where `/healthz` and `/readyz` are served.
    #[arg(long, env = "HEALTH_PROBE_BIND_ADDRESS", default_value = ":8081", value_parser = address)]
    pub health_probe_bind_address: SocketAddr,
    /// Port of the conversion and validation webhooks.
    #[arg(long, env = "WEBHOOK_PORT", default_value_t = 9876)]
    pub webhook_port: u16,
    /// Host name or address at which the apiserver reaches the webhooks of a controller outside the
    /// cluster; `HOST:PORT` where it does so at another port than they listen on.
    #[arg(long, env = "WEBHOOK_HOST", value_parser = host_and_port)]
    pub webhook_host: Option<HostAndPort>,
    /// The Service of the webhooks.
    #[arg(long, default_value = "kruise-webhook-service", value_parser = name)]
    pub webhook_service: String,
    /// Whether the chart's ValidatingWebhookConfiguration is there: its caBundle, rules and failure
    /// policy are kept then.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub validating_webhook: bool,
    /// The Secret of the webhooks' certificates.
    #[arg(long, default_value = "kruise-webhook-certs", value_parser = name)]
    pub webhook_secret: String,
    /// A token that the apiserver shows with each review about pods; without one the secret path is
    /// enough.
    #[arg(long, env = "WEBHOOK_TOKEN", hide_env_values = true, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub webhook_token: Option<String>,
    /// Port of the daemons' gRPC service.
    #[arg(long, env = "GRPC_PORT", default_value_t = 9877)]
    pub grpc_port: u16,
    /// The Service of the daemons' gRPC service.
    #[arg(long, default_value = "kruise-manager-grpc", value_parser = name)]
    pub grpc_service: String,
    /// Service account that daemons run as.
    #[arg(long, default_value = "kruise-daemon")]
    pub daemon_service_account: String,
    /// How long a serving certificate is valid, at least 10m.
    #[arg(long, default_value = "8760h", value_parser = duration)]
    pub cert_validity: Duration,
    /// How long a certificate authority is valid.
    #[arg(long, default_value = "87600h", value_parser = duration)]
    pub ca_validity: Duration,
    /// Objects of one kind that are worked on at the same time.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrent_reconciles: u16,
    /// The most bytes that the spec of an object may have, as JSON text. A larger object is not
    /// read: its condition Blocked says so, and no other object is affected.
    #[arg(long, env = "OBJECT_MAX_BYTES", default_value_t = DEFAULT_MAX_BYTES)]
    pub object_max_bytes: usize,
    /// Feature gates, e.g. `CloneSetShortHash=true`.
    #[arg(long, env = "FEATURE_GATES", default_value = "")]
    pub feature_gates: String,
    /// Kinds to work on, e.g. `CloneSet,NodeImage,ImagePullJob`; all where nothing is said.
    #[arg(long, env = "CUSTOM_RESOURCE_ENABLE", default_value = "")]
    pub custom_resource_enable: String,
    /// What pins pods that Kubernetes' own StatefulSets, or kinds of other controllers, make again,
    /// as PersistentPodStates ask: the chart's MutatingAdmissionPolicy, the pod webhook, or
    /// nothing. Pods of Advanced StatefulSets are pinned when they are made.
    #[arg(long, env = "POD_PINNING", value_enum, default_value = "none")]
    pub pod_pinning: PinnedBy,
    /// Do pods that must go back to their place wait while no pod webhook answers? Else they are
    /// made without being pinned.
    #[arg(long, env = "POD_PINNING_FAIL_CLOSED", default_value_t = true, action = clap::ArgAction::Set)]
    pub pod_pinning_fail_closed: bool,
    /// Does the scheduler bind the pods of DaemonSets to their nodes? Else they are created bound.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub assign_pods_by_scheduler: bool,
    /// Namespaces whose pods get nothing from SidecarSets, beside our own.
    #[arg(long, env = "PROTECTED_NAMESPACES", default_value = "kube-system")]
    pub protected_namespaces: String,
    /// May a pod with a PodUnavailableBudget be deleted or evicted while no replica answers?
    #[arg(long, env = "BUDGETS_FAIL_OPEN", default_value_t = false, action = clap::ArgAction::Set)]
    pub budgets_fail_open: bool,
    /// Groups whose members delete, evict and change pods even if budgets forbid it.
    #[arg(long, env = "BUDGETS_EXEMPT", value_delimiter = ',')]
    pub budgets_exempt: Vec<String>,
    /// The `--request-timeout` of the apiserver, 5s to 1h. What a budget granted and nothing came
    /// of expires 15s later; with less than the apiserver's own, more pods than the budget allows
    /// could go.
    #[arg(long, env = "APISERVER_REQUEST_TIMEOUT", default_value = "60s", value_parser = duration)]
    pub apiserver_request_timeout: Duration,
    /// What other clusters call this one. Budgets that name it mean this cluster.
    #[arg(long, env = "CLUSTER_NAME", default_value = "")]
    pub cluster_name: String,
    /// A kubeconfig whose contexts are the other clusters, of which budgets are read.
    #[arg(long, env = "CLUSTERS_KUBECONFIG")]
    pub clusters_kubeconfig: Option<PathBuf>,
    /// The pod that the controller runs in: its name.
    #[arg(long, env = "POD_NAME", hide = true)]
    pub pod_name: Option<String>,
    /// Its uid.
    #[arg(long, env = "POD_UID", hide = true)]
    pub pod_uid: Option<String>,
    /// Its address.
    #[arg(long, env = "POD_IP", hide = true)]
    pub pod_ip: Option<IpAddr>,
}

/// What pins new pods of workloads that are not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PinnedBy {
    /// The chart's MutatingAdmissionPolicy.
    Policy,
    /// The pod webhook.
    Webhook,
    /// Nothing.
    None,
}

/// Where something outside the cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAndPort {
    /// A DNS name or an address.
    pub host: String,
    /// None where nothing is said of it.
    pub port: Option<u16>,
}

/// `HOST` or `HOST:PORT`; an IPv6 address with a port is in brackets.
fn host_and_port(text: &str) -> Result<HostAndPort, String> {
    let wrong =
        || format!("{text:?} is not a host such as 10.0.0.7, example.org or [fd00::1]:9876");
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(HostAndPort {
            host: address.ip().to_string(),
            port: Some(address.port()),
        });
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) if text.parse::<IpAddr>().is_err() => {
            (host, Some(port.parse().map_err(|_| wrong())?))
        }
        _ => (text, None),
    };
    if host.is_empty() {
        Err(wrong())
    } else {
        Ok(HostAndPort {
            host: host.to_owned(),
            port,
        })
    }
}

/// An object's name: it becomes part of requests.
fn name(text: &str) -> Result<String, InvalidName> {
    Name::parse(text).map(|name| name.to_string())
}

/// A namespace: it becomes part of requests.
fn namespace(text: &str) -> Result<String, InvalidName> {
    Namespace::parse(text).map(|namespace| namespace.to_string())
}

/// The longest duration that a clock can add to now; longer than any process or object exists.
const LONGEST: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

/// A time above zero, as Go and Kubernetes write it (`15s`, `1m30s`, `8760h`), or a bare number of
/// seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let bare = text.parse().ok().map(SignedDuration::from_secs);
    let parsed = bare
        .or_else(|| text.parse().ok())
        .filter(|time| time.is_positive() && *time <= LONGEST);
    let wrong = || {
        format!("{text:?} is not a time above 0 and below 100 years, such as 15s, 1m30s or 8760h")
    };
    parsed.map(SignedDuration::unsigned_abs).ok_or_else(wrong)
}

/// An address; `:8080` means all of the machine's, of both families, as in Go.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') {
        format!("[::]{text}")
    } else {
        text.to_owned()
    };
    full.parse()
        .map_err(|_| format!("{text:?} is not an address such as :8080 or 127.0.0.1:8080"))
}

#[cfg(test)]
mod tests;
