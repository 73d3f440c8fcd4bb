//! The stores that the controller reads, and their indexes.

pub(crate) mod configuration;
pub(crate) mod custom_resources;
pub(crate) mod custom_workloads;
pub(crate) mod read;
pub(crate) mod reads;
pub(crate) mod triggers;
pub(crate) mod unread;
pub(crate) mod watched;
