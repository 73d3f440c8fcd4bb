//! What a definition says of fields besides their types: defaults, bounds and rules.

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

/// What a kind's definition is made of.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    /// The definition of each version by its type alone, the stored one first. A single one is that of all versions.
    pub(crate) versions: &'static [fn() -> CustomResourceDefinition],
    /// What the types of a version do not say.
    pub(crate) patches: fn(Version) -> Vec<Patch>,
}
