//! Flags of all commands, as kubectl has them.

use std::path::PathBuf;
use std::time::Duration;

use berth_api::name::{InvalidName, Namespace};
use berth_api::names::SYSTEM_NAMESPACE;
use clap::Args;
use jiff::SignedDuration;

/// Which cluster, as which user, and how output looks.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The namespace; without it, that of the kubeconfig's context.
    #[arg(short, long, global = true, value_parser = namespace)]
    pub namespace: Option<String>,
    /// The context of the kubeconfig.
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// The kubeconfig; without it, KUBECONFIG or ~/.kube/config.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// The user to act as.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// A group to act as; may be repeated.
    #[arg(long, global = true, value_name = "GROUP")]
    pub as_group: Vec<String>,
    /// How long one request may take, such as 10s.
    #[arg(long, global = true, default_value = "30s", value_parser = duration)]
    pub request_timeout: Duration,
    /// The namespace that Berth's controller runs in.
    #[arg(long, global = true, env = "BERTH_NAMESPACE", default_value = SYSTEM_NAMESPACE, value_parser = namespace)]
    pub berth_namespace: String,
    /// No colours; the variable NO_COLOR does the same.
    #[arg(long, global = true)]
    pub no_color: bool,
}

fn namespace(text: &str) -> Result<String, InvalidName> {
    Namespace::parse(text).map(|namespace| namespace.to_string())
}

/// A time as Go and Kubernetes write it (`15s`, `1m30s`), or a number of seconds; 0 is allowed.
///
/// # Errors
/// The text is no such time.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bare = text.parse().ok().map(SignedDuration::from_secs);
    bare.or_else(|| text.parse().ok())
        .filter(|time| !time.is_negative() && time.as_hours() < 24 * 365)
        .map(SignedDuration::unsigned_abs)
        .ok_or_else(|| format!("{text:?} is not a time below a year, such as 15s or 1m30s"))
}
