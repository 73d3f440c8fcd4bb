//! A real multi-node Kubernetes on one Linux machine: a library and a command.
//!
//! ```no_run
//! use berth_cluster::{Cluster, Options};
//!
//! let cluster = Cluster::up(&Options { nodes: 3, ..Options::default() })?;
//! println!("{}", cluster.kubectl(&["get", "nodes"])?);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! Every cluster lives in network and mount namespaces of its own, so any number of them run at
//! once with the same inner addresses; see [`address`]. From the host a cluster is reached through
//! loopback alone: [`Cluster::kubeconfig`] and [`Cluster::registry`]. It ends when the [`Cluster`]
//! is dropped; the next [`Cluster::up`] removes the remains of a killed process.
//!
//! Needs root, cgroup v1 or v2, and the packages that `cluster install-prerequisites` installs.

mod addons;
pub mod address;
mod cgroup;
mod cluster;
pub mod component;
mod faults;
pub mod image;
mod namespace;
mod node;
mod pki;
pub mod prerequisites;
mod process;
pub mod programs;
mod relay;
mod start;
mod state;
mod valve;
pub mod versions;

pub use cluster::{Cluster, Options};
pub use component::{Component, Place};
pub use faults::Diversion;
pub use image::{Image, Registry};
pub use state::{Summary, list, remove_leftovers};
pub use valve::Valve;
pub use versions::Versions;
