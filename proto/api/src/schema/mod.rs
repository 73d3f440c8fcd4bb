//! What a definition says of fields besides their types: columns, defaults and rules.

pub(crate) mod budgets;
pub(crate) mod columns;
pub(crate) mod patch;
pub(crate) mod pods;
pub(crate) mod pulls;
pub(crate) mod rules;
pub(crate) mod template;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use self::columns::Column;
use self::patch::Patch;
use crate::version::Version;

/// What a kind's definition is made of.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    /// The definition of each version by its type alone.
    pub(crate) versions: &'static [fn() -> CustomResourceDefinition],
    /// Defaults and validation of a version.
    pub(crate) rules: fn(Version) -> Vec<Patch>,
    /// The columns of `kubectl get`.
    pub(crate) columns: &'static [Column],
}
