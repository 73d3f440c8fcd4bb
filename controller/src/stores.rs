//! What the controller reads, and how it finds it.

pub(crate) mod configuration;
pub(crate) mod custom_resources;
pub(crate) mod custom_workloads;
pub(crate) mod read;
pub(crate) mod reads;
pub(crate) mod triggers;
pub(crate) mod watched;
