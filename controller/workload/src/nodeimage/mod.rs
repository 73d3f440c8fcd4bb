//! NodeImages: what a node's daemon shall do and has reported.

mod facts;

pub use facts::facts;
