//! The authority and the serving certificate: one Secret that all replicas share, made and rotated
//! by any of them.

pub mod issue;
pub mod plan;
pub mod resolver;
pub mod store;
mod validity;

pub use validity::Validity;

#[cfg(test)]
mod tests;
