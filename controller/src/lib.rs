//! The parts of the controller's process that are neither decisions nor their driver.

pub mod secrets;
