//! Exit codes, and errors as sentences.

use std::process::ExitCode;

use berth_runtime::client::Failed;
use tokio::time::error::Elapsed;

use crate::text;

/// The remedy for a server that cannot be reached.
const REACH: &str = "check the server in the kubeconfig (`kubectl config view --minify`), and the \
    network between this machine and it";
/// The remedy for a server whose certificate is of another authority.
const TRUST: &str = "check the server and its certificate-authority in the kubeconfig (`kubectl \
    config view --minify`)";
/// Parts of the messages of libraries, and what they mean.
const CONNECTIONS: [(&str, &str); 7] = [
    ("Connection refused", "it refuses connections"),
    ("lookup address", "its name cannot be resolved"),
    (
        "timed out",
        "no connection within the time of --request-timeout",
    ),
    (
        "deadline has elapsed",
        "no connection within the time of --request-timeout",
    ),
    ("No route to host", "there is no route to it"),
    ("Network is unreachable", "there is no network to it"),
    ("Connection reset", "it has closed the connection"),
];

/// The result of a command, as an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: not done, as for a rollout or a check that failed.
    Failed,
    /// 2: the command line is wrong.
    Usage,
    /// 124: the time of `--timeout` is over.
    TimedOut,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::TimedOut => 124,
        })
    }
}

/// A mistake in the command line that clap cannot find.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// The error of a command, as one line without control characters.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        if is_connection(cause) {
            let why = connection(cause);
            let begin = match line.is_empty() {
                true => "the apiserver cannot be reached".to_owned(),
                false => error.to_string(),
            };
            return text::clean(&format!("{begin}: {why}"));
        }
        // Its context names the time.
        if cause.is::<Elapsed>() {
            break;
        }
        let word = one(cause);
        // The message of an error often ends with that of its cause.
        if !line.ends_with(&word) {
            line = if line.is_empty() {
                word
            } else {
                format!("{line}: {word}")
            };
        }
        // The causes of a refusal repeat it.
        if matches!(cause.downcast_ref(), Some(kube::Error::Api(_))) {
            break;
        }
    }
    text::clean(&line)
}

fn one(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(refused)) if refused.code == 401 => format!(
            "the apiserver does not accept your credentials: {}",
            refused.message
        ),
        Some(kube::Error::Api(refused)) => refused.message.clone(),
        _ => error.to_string(),
    }
}

/// Whether the apiserver did not answer at all.
pub fn is_of_connection(error: &anyhow::Error) -> bool {
    error.chain().any(is_connection)
}

fn is_connection(cause: &(dyn std::error::Error + 'static)) -> bool {
    match cause.downcast_ref::<Failed>() {
        // The client of the controller's code keeps only the text of kube's error.
        Some(failed) => {
            let texts = ["ServiceError", "HyperError"];
            failed.code == 0 && texts.iter().any(|one| failed.message.starts_with(one))
        }
        None => matches!(
            cause.downcast_ref(),
            Some(kube::Error::Service(_) | kube::Error::HyperError(_))
        ),
    }
}

/// Why there is no connection, without the terms of libraries, and the remedy.
fn connection(cause: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(cause), |one| one.source());
    let all: Vec<_> = causes.map(ToString::to_string).collect();
    let all = all.join(": ");
    if let Some((_, why)) = CONNECTIONS.iter().find(|(part, _)| all.contains(part)) {
        return format!("{why}; {REACH}");
    }
    // The last part is the nearest to the cause.
    let last = all.rsplit(": ").next().unwrap_or_default();
    if all.contains("invalid peer certificate") {
        return format!("its certificate is not trusted ({last}); {TRUST}");
    }
    format!("{last}; {REACH}")
}

/// Whether the apiserver refused a right.
pub fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(refused) if refused.code == 403)
}

/// Whether the object, or its kind, does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(refused) if refused.code == 404)
}

#[cfg(test)]
mod tests;
