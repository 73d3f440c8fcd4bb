//! The node's daemon: it pulls the images that its node's NodeImage asks for, and reports what the node has.
//!
//! Decisions are pure: [`tasks`] (what to pull when, what to report), [`inspect`] (what containers were created from), [`env`]
//! (and with which variables), [`stops`] (which are stopped for requests), [`pre_stop`] (and by which hook), [`space`] (does an image fit), [`urgency`] (what is worth a write). Adapters speak to the world: [`cri`] and
//! [`containerd`] to the runtime that [`runtime`] finds, [`nodeimage`] to the apiserver, [`pull_secrets`] to the
//! controller. [`cni`] looks after the plugin `host-local`. [`agent`] is the loop that connects them.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod agent;
pub mod containers;
pub mod flags;
pub mod http;
pub mod metrics;
pub mod nodeimage;
pub mod pulls;
pub mod runtime;
pub mod tasks;
pub mod urgency;
