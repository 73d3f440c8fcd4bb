//! The services between the controller and the daemon.

use std::fmt;

/// The first version of the services, generated from `proto/berth/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("berth.v1");
}

/// The audience of a daemon's token. It is the controller's own, so that a token that leaks from a
/// call is useless against the apiserver.
pub const TOKEN_AUDIENCE: &str = "berth-controller";

impl fmt::Debug for v1::Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("registry", &self.registry)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
