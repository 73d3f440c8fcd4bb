//! What `explain` looks at, and how it prints.

pub(crate) mod leader;
pub(crate) mod look;
pub(crate) mod printed;
