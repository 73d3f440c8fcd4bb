//! The webhooks and the chart against a real apiserver. Needs root, as `berth-cluster` does.

mod chart;
mod migration;
mod policy;
mod repair;
mod rotation;
mod stage;
mod start;
mod validation;
