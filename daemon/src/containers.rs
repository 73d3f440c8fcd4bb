//! Containers: what they run with, and how they are stopped.

pub mod container_hash;
pub mod env;
pub mod inspect;
pub mod pre_stop;
pub mod stops;
