//! Objects as decisions see them, and the values that their fields hold.

pub mod claim;
pub mod condition;
pub mod intstr;
pub mod namespace;
pub mod node;
pub mod ordinals;
pub mod owner;
pub mod patch;
pub mod pod;
pub mod quantity;
pub mod resource;
pub mod selector;
pub mod target;
pub mod untyped_workload;
