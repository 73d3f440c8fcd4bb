//! Failures, with their codes from the CNI specification.

use std::{fmt, io};

/// An error as CNI reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code: codes below 100 are the specification's.
    pub code: u32,
    /// The fault, in a few words.
    pub message: String,
    /// More about it; may be empty.
    pub details: String,
}

/// The version of the specification is not supported, or lacks this call.
pub const INCOMPATIBLE_VERSION: u32 = 1;
/// A variable of the environment is missing or wrong.
pub const INVALID_ENVIRONMENT: u32 = 4;
/// A file could not be read or written.
pub const IO_FAILURE: u32 = 5;
/// The configuration is no JSON, or a field has the wrong type.
pub const UNDECODABLE: u32 = 6;
/// The configuration is refused.
pub const INVALID_CONFIG: u32 = 7;
/// The pod's network namespace is the plugin's own.
pub const INVALID_NAMESPACE: u32 = 8;
/// It may work later: all addresses are taken now, or the lock is held.
pub const TRY_AGAIN_LATER: u32 = 11;
/// No ADD can work now.
pub const NOT_AVAILABLE: u32 = 50;
/// Anything else; the reference plugin uses it for nearly everything.
pub const INTERNAL: u32 = 999;

impl Failure {
    /// A failure without details.
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: String::new(),
        }
    }

    /// The failure with these details.
    #[must_use]
    pub fn with(self, details: impl Into<String>) -> Self {
        Self {
            details: details.into(),
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        if self.details.is_empty() {
            Ok(())
        } else {
            write!(out, "; {}", self.details)
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::TimedOut {
            TRY_AGAIN_LATER
        } else {
            IO_FAILURE
        };
        Self::new(code, error.to_string())
    }
}
