//! The common parts of decisions about several kinds: pure functions over small values.
//!
//! Nothing here does I/O, reads a clock or keeps state between calls, and nothing depends on a
//! kind: the kinds are in `berth-kinds`.
//!
//! A module imports only modules of its own folder and of folders further up in this list:
//! [`objects`], [`plan`], [`update`], then [`budget`] and [`blocked`], [`images`], [`pod_owner`].

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod blocked;
pub mod budget;
pub mod feature_gates;
pub mod images;
pub mod objects;
pub mod plan;
pub mod pod_owner;
pub mod share;
pub mod update;
