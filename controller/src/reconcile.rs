//! The parts that controllers share.

pub(crate) mod controller;
pub(crate) mod ended;
pub(crate) mod overlapping;
pub(crate) mod podset;
pub(crate) mod unreadable;
