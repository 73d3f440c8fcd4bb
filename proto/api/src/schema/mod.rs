//! What a definition says of fields besides their types: columns, defaults and rules.

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
    /// The definition of each version by its type alone.
    pub(crate) versions: &'static [fn() -> CustomResourceDefinition],
    /// What the types of a version do not say.
    pub(crate) patches: fn(Version) -> Vec<Patch>,
}

/// Makes the definition of v1alpha1 from that of v1beta1, for a kind that has the same types in both.
pub(crate) fn as_v1alpha1(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        version.name = Version::V1Alpha1.name().to_owned();
        version.storage = false;
    }
    definition
}
