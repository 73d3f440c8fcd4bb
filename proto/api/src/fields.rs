//! Types and texts that several kinds have in their fields and annotations.

pub mod condition;
pub mod inplace;
pub mod lifecycle;
pub mod ordinals;
pub mod template;
pub mod update_order;
