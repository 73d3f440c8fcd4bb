//! UnitedDeployment: one workload for each domain.

pub mod adopt;
pub mod change;
pub mod render;
pub mod subset_kind;

#[cfg(test)]
mod tests;
//! UnitedDeployment: one workload for each domain, among which the replicas are divided.

pub mod division;
//! UnitedDeployment: one application over many domains, one workload for each.

pub mod revision;
