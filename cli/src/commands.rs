//! The commands, a file for each.

pub mod why;
