//! Containers: the environment variables that they run with, and how they are stopped.

pub mod env;
pub mod pre_stop;
pub mod stops;
