//! The webhooks and the chart against a real apiserver. Needs root, as `berth-cluster` does.

mod admission;
mod chart;
mod deletions;
mod migration;
mod pods;
mod prepare_return;
mod repair;
mod replica;
mod rotation;
mod stage;
mod start;
mod token;
mod validation;
