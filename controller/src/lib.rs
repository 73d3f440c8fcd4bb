//! The controller: what it is started with, what it reads, who acts, and what it serves.

mod admission;
mod budgets;
mod context;
mod controllers;
mod custom_workloads;
mod explain;
mod kinds;
#[cfg(test)]
mod ownership_tests;
mod reconcile;
pub mod secrets;
pub mod settings;
mod start;
mod status;
mod stores;

pub use start::command::execute;
