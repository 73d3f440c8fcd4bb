//! Pulling images: the pull itself, its pull secrets and its result.

pub mod pull;
pub mod pull_secrets;
