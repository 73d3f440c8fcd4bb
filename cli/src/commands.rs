//! The commands, a file for each.

pub mod check;
pub mod create;
pub mod dashboard;
pub mod drain;
pub mod exec;
pub mod expose;
pub mod get;
pub mod images;
pub mod migrate;
pub mod report;
pub mod rollout;
pub mod scaledown;
pub mod set;
pub mod top;
pub mod why;
