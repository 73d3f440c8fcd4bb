//! UnitedDeployment: one application over many domains, one workload for each.

pub mod revision;
