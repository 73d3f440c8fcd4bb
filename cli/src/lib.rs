//! The kubectl plugin of Berth. It decides with the crates of the controller, and reads and writes
//! with the rights of the user.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod budget_limit;
pub mod command;
pub mod commands;
pub mod completion;
pub mod exit;
pub mod flags;
pub mod in_place;
pub mod kinds;
pub mod objects;
pub mod pod_spec;
pub mod session;
pub mod text;
pub mod write;
