//! Stories of a StatefulSet in the small world.

mod claims;
mod order;
mod properties;
mod update;
