//! `host-local`: a CNI plugin that gives pods addresses from ranges and keeps them in files of the node.
//!
//! Decisions ([`config`], [`range`], [`allocator`], [`record`]) know no disk; [`store`] is the disk; [`commands`] are CNI's
//! calls and [`admin`] what people ask; [`neighbour`] is what the kernel shall forget; [`remedy`] is the commands in messages.
//! The files are those of the reference plugin of the same name; what that one does not know (which attachment has which
//! address, which pod an address is kept for) lies beside its directories.

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
