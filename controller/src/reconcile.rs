//! What the controllers have in common.

pub(crate) mod controller;
pub(crate) mod ended;
pub(crate) mod overlapping;
pub(crate) mod podset;
pub(crate) mod unreadable;
