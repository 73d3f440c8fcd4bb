//! A kind, and its versions.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conversion::Mapping;
use crate::validation::Violation;
use crate::version::Version;
use crate::weight::Limits;

/// A kind, as far as the running programs ask about it.
#[derive(Clone, Copy)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Name of the kind, as manifests have it. Our kinds have different ones, whatever their groups.
    pub kind: &'static str,
    /// Name in paths, lower case plural. Our kinds have different ones, whatever their groups.
    pub plural: &'static str,
    /// False for cluster-scoped objects.
    pub namespaced: bool,
    /// The version that is stored, and that the controller works with.
    pub stored: Version,
    /// Versions that are served besides, for older manifests. Without any there is nothing to convert.
    pub older: &'static [Version],
    /// Whether the type of the stored version reads the text of an object: a schema may let pass what the type does not.
    pub read: fn(&str) -> Result<(), serde_json::Error>,
    /// What an object may be at most, given the bytes that a flag allows for a spec.
    pub limits: fn(usize) -> Limits,
    /// The field that holds the template of its pods, such as `spec.template`. A webhook asks the apiserver about it.
    pub template: Option<&'static str>,
    /// What the controller makes for its objects, so that they control it, by plural. A policy of the chart lets the
    /// controller's account write nothing else.
    pub owns: &'static [&'static str],
    /// Reads the text of an object of the stored version, and returns its spec with all defaults.
    pub(crate) spec: fn(&str) -> Result<Value, serde_json::Error>,
    /// Releases of OpenKruise that serve the kind in v1alpha1 alone, each with the fields of our v1alpha1 that it lacks, `[]` for
    /// the items of a list.
    pub(crate) v1alpha1_alone: &'static [(&'static str, &'static [&'static str])],
    /// What a user is warned of when an object is written, given as text: fields that do not count.
    pub warnings: Option<fn(&str) -> Vec<String>>,
    /// How its versions relate.
    pub(crate) mapping: Mapping,
    /// Faults of an object that neither the schema nor its rules can name.
    pub(crate) faults: fn(&Value) -> Vec<Violation>,
    /// Faults of a change from an older object to a newer one, given in the order newer, older.
    pub(crate) faults_of_change: fn(&Value, &Value) -> Vec<Violation>,
}

impl Kind {
    /// What most kinds have: both versions, a namespace, the limits of specs, and no rule about changes. The rest names no
    /// kind, so that each registration says it.
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

    /// The versions that are served, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = Version> {
        self.older.iter().copied().chain([self.stored])
    }

    /// `apps.kruise.io/v1beta1`, ….
    pub fn api_version(&self, version: Version) -> String {
        format!("{}/{}", self.group, version.name())
    }

    /// The version that an `apiVersion` names, if the kind is served in it.
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
/// Why the text is no such object.
pub(crate) fn read<T: DeserializeOwned>(object: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(object).map(drop)
}

/// [`Kind::spec`] of a type.
///
/// # Errors
/// Why the text is no such object.
pub(crate) fn spec<T: DeserializeOwned + Serialize>(
    object: &str,
) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(serde_json::from_str::<T>(object)?)?;
    Ok(object.get_mut("spec").map(Value::take).unwrap_or_default())
}
