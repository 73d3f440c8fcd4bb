//! What the controller is started with.

pub mod flags;
pub mod gates;
pub mod timings;
