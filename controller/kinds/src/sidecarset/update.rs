//! Which pods get new images, when, and in which of their containers.

pub(super) mod ahead;
pub(super) mod choose;
pub(super) mod hot;
pub(super) mod pods;
pub(super) mod settings;
pub(super) mod stages;
pub(super) mod tried;
pub(super) mod turns;
