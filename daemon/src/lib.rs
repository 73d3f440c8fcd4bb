//! The node's daemon: it pulls the images in its node's NodeImage, and reports the images and
//! containers of the node.
//!
//! Decisions are pure: [`tasks`] (pulls and their reports), [`inspect`] (the images that containers
//! were created from), [`env`] (their variables), [`stops`] (stops for requests), [`pre_stop`]
//! (hooks before a stop), [`space`] (does an image fit), [`urgency`] (when to write the status).
//! Adapters talk to other programs: [`cri`] and [`containerd`] to the runtime that [`runtime`]
//! finds, [`nodeimage`] to the apiserver, [`pull_secrets`] to the controller. [`cni`] handles the
//! plugin `host-local`. [`agent`] is the loop that connects them.

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
