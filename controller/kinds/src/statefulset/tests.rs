//! Stories of a StatefulSet in the small world.

mod blocked;
mod claim_templates;
mod claims;
mod order;
mod properties;
mod rollout_status;
mod update;
