//! The parts of a definition that are not in the types of its fields: defaults, limits and rules.

pub(crate) mod absent;
pub(crate) mod budgets;
pub(crate) mod field;
pub(crate) mod patch;
pub(crate) mod pods;
pub(crate) mod rules;
pub(crate) mod template;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use self::patch::Patch;
use crate::version::Version;

/// The input of a kind's definition.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    /// The definition of each version from its type alone, the stored version first. A single one
    /// is for all versions.
    pub(crate) versions: &'static [fn() -> CustomResourceDefinition],
    /// The parts that the types of a version do not have.
    pub(crate) patches: fn(Version) -> Vec<Patch>,
}
