//! The input of `explain`, and its output.

pub(crate) mod leader;
pub(crate) mod look;
pub(crate) mod printed;
