//! The settings that the controller starts with.

pub mod flags;
pub mod gates;
pub mod published;
pub mod timings;
