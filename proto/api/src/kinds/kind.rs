//! A kind, and its versions.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conversion::Mapping;
use crate::validation::Violation;
use crate::version::Version;
use crate::weight::Limits;

/// A kind, with the properties that the programs use.
#[derive(Clone, Copy)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Name of the kind in manifests. It is unique among Berth's kinds, even across groups.
    pub kind: &'static str,
    /// Name in paths, lower case plural. It is unique among Berth's kinds, even across groups.
    pub plural: &'static str,
    /// False for cluster-scoped objects.
    pub namespaced: bool,
    /// The stored version, which the controller works with.
    pub stored: Version,
    /// Other served versions, for older manifests. Without any there is no conversion.
    pub older: &'static [Version],
    /// Parses the text of an object as the type of the stored version, because a schema may accept
    /// what the type does not.
    pub read: fn(&str) -> Result<(), serde_json::Error>,
    /// The size limits of an object, given the bytes that a flag allows for a spec.
    pub limits: fn(usize) -> Limits,
    /// The field of the pod template, such as `spec.template`. A webhook has the apiserver validate
    /// it.
    pub template: Option<&'static str>,
    /// The kinds of objects, by plural, that the controller creates for its objects and that they
    /// control. A policy of the chart lets the controller's account write no others.
    pub owns: &'static [&'static str],
    /// Parses the text of an object of the stored version, and returns its spec with all defaults.
    pub(crate) spec: fn(&str) -> Result<Value, serde_json::Error>,
    /// Releases of OpenKruise that serve the kind only in v1alpha1, each with the fields of Berth's
    /// v1alpha1 that it lacks, `[]` for the items of a list.
    pub(crate) v1alpha1_alone: &'static [(&'static str, &'static [&'static str])],
    /// Warnings for a user who writes an object, given as text: fields without effect.
    pub warnings: Option<fn(&str) -> Vec<String>>,
    /// The mapping between its versions.
    pub(crate) mapping: Mapping,
    /// Faults of an object that neither the schema nor its rules can express.
    pub(crate) faults: fn(&Value) -> Vec<Violation>,
    /// Faults of a change. The arguments are the newer and the older object.
    pub(crate) faults_of_change: fn(&Value, &Value) -> Vec<Violation>,
}

impl Kind {
    /// The properties of most kinds: both versions, a namespace, the limits of specs, and no rule
    /// about changes. The other properties are empty, so that each registration must set them.
    pub(crate) const USUAL: Self = Self {
        group: "",
        kind: "",
        plural: "",
        namespaced: true,
        stored: Version::V1Beta1,
        older: &[Version::V1Alpha1],
        read: |_| Ok(()),
        limits: Limits::of_specs,
        template: None,
        owns: &[],
        spec: |_| Ok(Value::Null),
        v1alpha1_alone: &[],
        warnings: None,
        mapping: Mapping::SAME,
        faults: |_| Vec::new(),
        faults_of_change: |_, _| Vec::new(),
    };

    /// The served versions, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = Version> {
        self.older.iter().copied().chain([self.stored])
    }

    /// The `apiVersion` of objects in this version, such as `apps.kruise.io/v1beta1`.
    pub fn api_version(&self, version: Version) -> String {
        format!("{}/{}", self.group, version.name())
    }

    /// The version in an `apiVersion`, if the kind is served in it.
    pub fn version(&self, api_version: &str) -> Option<Version> {
        let name = api_version.strip_prefix(self.group)?.strip_prefix('/')?;
        self.versions().find(|version| version.name() == name)
    }

    /// The name of its CustomResourceDefinition.
    pub fn crd(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Whether objects are converted between versions.
    pub const fn is_converted(&self) -> bool {
        !self.older.is_empty()
    }
}

/// [`Kind::read`] of a type.
///
/// # Errors
/// The text is not an object of this type.
pub(crate) fn read<T: DeserializeOwned>(object: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(object).map(drop)
}

/// [`Kind::spec`] of a type.
///
/// # Errors
/// The text is not an object of this type.
pub(crate) fn spec<T: DeserializeOwned + Serialize>(
    object: &str,
) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(serde_json::from_str::<T>(object)?)?;
    Ok(object.get_mut("spec").map(Value::take).unwrap_or_default())
}
