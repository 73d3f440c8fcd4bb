//! The controller: its settings, the stores that it reads, its controllers, and its servers.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod admission;
mod budgets;
mod context;
mod controllers;
mod explain;
mod kinds;
#[cfg(test)]
mod ownership_tests;
pub mod plugin;
mod reconcile;
pub mod secrets;
pub mod settings;
mod start;
mod status;
mod stores;

pub use start::command::execute;
