//! The controller: what it is started with, what it reads, who acts, and what it serves.

mod budgets;
mod clusters;
mod command;
mod configuration;
mod context;
mod controller;
mod controllers;
mod custom_resources;
mod custom_workloads;
mod ended;
mod expected_pods;
mod explain;
pub mod flags;
pub mod gates;
mod injection;
mod kinds;
mod overlapping;
#[cfg(test)]
mod ownership_tests;
mod pod_pinning;
mod pod_rules;
mod pod_states;
mod podset;
mod prepare_return;
mod process;
mod read;
mod reads;
#[cfg(test)]
mod real_apiserver;
mod recent;
mod refused;
mod reported;
mod resize;
mod run;
pub mod secrets;
mod serve;
mod status_metric;
mod status_throttle;
mod switched_off;
pub mod timings;
mod triggers;
mod unreadable;
mod watched;
mod webhook_rules;

pub use command::execute;
