//! Pulling images: what is pulled, with which secrets, and what comes of it.

pub mod pull;
pub mod pull_secrets;
