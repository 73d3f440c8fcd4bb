//! Plans that are printed: their inputs, and their text.

pub(crate) mod look;
pub(crate) mod printed;
