//! `host-local`: a CNI plugin that gives pods addresses from ranges and keeps them in files of the
//! node.
//!
//! Decisions ([`config`], [`range`], [`allocator`], [`record`]) know no disk; [`store`] reads and
//! writes it. [`commands`] are CNI's calls and [`admin`] the operators' commands; [`neighbour`]
//! drops entries of the kernel's neighbour table; [`remedy`] has the commands in messages. The
//! files are those of the reference plugin of the same name. Data that the reference does not have
//! (the addresses of an attachment, the pod that an address is kept for) lies beside its
//! directories.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod admin;
pub mod allocator;
pub mod call;
pub mod commands;
pub mod config;
pub mod failure;
pub mod lease;
pub mod node;
pub mod range;
pub mod record;
pub mod remedy;
pub mod result;
pub mod store;
