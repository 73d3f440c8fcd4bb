//! The daemon's flags. Each can be given as an environment variable too.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::name::{InvalidName, Name, Namespace};
use clap::{Parser, ValueEnum};

use crate::agent::Settings;
use crate::pulls::pull_secrets::PullSecrets;
use crate::runtime::SocketChoice;
use crate::runtime::cni::Leases;
use crate::runtime::space;
use crate::tasks::Limits;

/// Pulls the images that the NodeImage of its node asks for, and reports what the node has.
#[derive(Debug, Parser)]
#[command(name = "berth-daemon", version)]
pub struct Flags {
    /// Name of the node, and of its NodeImage.
    #[arg(long, env = "NODE_NAME", value_parser = name)]
    pub node_name: String,
    /// Address of the node, where preStop hooks by HTTP reach pods that have its network. Without
    /// it such hooks fail, unless they name a host.
    #[arg(long, env = "NODE_IP")]
    pub node_ip: Option<String>,
    /// Socket of the container runtime, as a path of the host. Without it the sockets of
    /// containerd, CRI-O and cri-dockerd are tried.
    #[arg(long, env = "CRI_SOCKET")]
    pub cri_socket: Option<String>,
    /// Where the host's directories are mounted.
    #[arg(long, env = "HOST_ROOT", default_value = "/")]
    pub host_root: PathBuf,
    /// The controller's service for pull secrets, host:port. Without it pulls that name secrets are
    /// held.
    #[arg(long, env = "CONTROLLER")]
    pub controller: Option<String>,
    /// Name in the controller's certificate. Without it the host of --controller.
    #[arg(long, env = "CONTROLLER_SERVER_NAME")]
    pub controller_server_name: Option<String>,
    /// CA certificate that the controller's certificate is checked against. Read with every call.
    #[arg(
        long,
        env = "CONTROLLER_CA",
        default_value = "/var/run/berth/ca/ca.crt"
    )]
    pub controller_ca: PathBuf,
    /// The daemon's own service account token for the audience berth-controller. Read with every
    /// call.
    #[arg(
        long,
        env = "TOKEN_FILE",
        default_value = "/var/run/secrets/berth/token"
    )]
    pub token_file: PathBuf,
    /// Most pulls at once.
    #[arg(long, env = "MAX_PARALLEL_PULLS", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_parallel_pulls: u16,
    /// The host's directory of CNI plugins with Berth's host-local in it, which gives way when the
    /// chart is uninstalled.
    #[arg(long, env = "CNI_BIN_DIR")]
    pub cni_bin_dir: Option<PathBuf>,
    /// The host's directory of host-local's leases, of which those of dead sandboxes are taken
    /// back.
    #[arg(long, env = "CNI_DATA_DIR")]
    pub cni_data_dir: Option<PathBuf>,
    /// Seconds that a lease must be old before it is taken back, because the runtime does not know
    /// its sandbox.
    #[arg(long, env = "CNI_RECLAIM_AFTER", default_value_t = 600)]
    pub cni_reclaim_after: u32,
    /// The namespace of the daemon's pod.
    #[arg(long, env = "POD_NAMESPACE", default_value = "kruise-system", value_parser = namespace)]
    pub pod_namespace: String,
    /// Seconds between two writes of the status that tell of progress alone.
    #[arg(long, env = "PROGRESS_INTERVAL", default_value_t = 3)]
    pub progress_interval: u16,
    /// Where /healthz, /readyz and /metrics are served. `[::]` means all addresses, of both
    /// families.
    #[arg(long, env = "HTTP_ADDRESS", default_value = "[::]:10221")]
    pub http_address: SocketAddr,
    /// Form of the log.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,
    /// What is logged, as a filter of tracing: a level, or module=level,…
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// An object's name: it becomes part of requests.
fn name(text: &str) -> Result<String, InvalidName> {
    Name::parse(text).map(|name| name.to_string())
}

/// A namespace: it becomes part of requests.
fn namespace(text: &str) -> Result<String, InvalidName> {
    Namespace::parse(text).map(|namespace| namespace.to_string())
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Flags {
    /// The flags as the agent takes them.
    pub fn settings(&self) -> Settings {
        let secrets = self
            .controller
            .as_ref()
            .filter(|controller| !controller.is_empty())
            .map(|controller| PullSecrets {
                controller: controller.clone(),
                server_name: self
                    .controller_server_name
                    .clone()
                    .filter(|name| !name.is_empty()),
                ca: self.controller_ca.clone(),
                token: self.token_file.clone(),
            });
        Settings {
            node_name: self.node_name.clone(),
            node_ip: self
                .node_ip
                .as_deref()
                .and_then(|address| address.parse().ok()),
            socket: SocketChoice {
                host_root: self.host_root.clone(),
                socket: self.cri_socket.clone().filter(|socket| !socket.is_empty()),
            },
            secrets,
            limits: Limits {
                parallel: self.max_parallel_pulls.into(),
            },
            progress_interval: Duration::from_secs(self.progress_interval.into()),
        }
    }
}

impl Flags {
    /// The directory of plugins to look after, as this process sees it.
    pub fn plugins(&self) -> Option<PathBuf> {
        self.on_host(self.cni_bin_dir.as_ref())
    }

    /// The leases to look after.
    pub fn leases(&self) -> Option<Leases> {
        let reclaim_after = Duration::from_secs(self.cni_reclaim_after.into());
        Some(Leases {
            data_dir: self.on_host(self.cni_data_dir.as_ref())?,
            reclaim_after,
        })
    }

    fn on_host(&self, path: Option<&PathBuf>) -> Option<PathBuf> {
        let path = path.filter(|path| !path.as_os_str().is_empty())?;
        Some(space::under(&self.host_root, &path.to_string_lossy()))
    }
}

#[cfg(test)]
mod tests;
