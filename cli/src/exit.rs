//! Exit codes, and errors as sentences.

use std::process::ExitCode;

use crate::text;

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
        Some(kube::Error::Service(cause)) => cause.to_string(),
        _ => error.to_string(),
    }
}

/// Whether the apiserver did not answer at all.
pub fn is_of_connection(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(kube::Error::Service(_) | kube::Error::HyperError(_))
        )
    })
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
