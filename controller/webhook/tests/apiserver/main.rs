//! The webhooks and the chart against a real apiserver. Needs root, as `berth-cluster` does.

mod chart;
mod deletions;
mod migration;
mod pods;
mod policy;
mod policy_budgets;
mod policy_claims;
mod policy_controller;
mod policy_daemon_sets;
mod policy_federation;
mod policy_jobs;
mod policy_nodes;
mod policy_requests;
mod policy_states;
mod policy_webhooks;
mod prepare_return;
mod repair;
mod rights;
mod rotation;
mod stage;
mod start;
mod taken_over;
mod validation;
