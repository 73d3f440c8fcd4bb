//! The parts of the controller's process that are neither decisions nor their driver: what it is told when it starts, and
//! what it tells daemons.

pub mod flags;
pub mod gates;
pub mod secrets;
pub mod timings;
