//! Conversion between v1alpha1 and v1beta1, in both directions and without loss.
//!
//! Each kind has a plain mapping of what both versions can say. Whatever the mapping alone would lose is found by mapping
//! the result back and comparing, and travels in one annotation, see [`memory`]. So the mapping may stay simple: it
//! decides how an object reads in the other version, never whether it survives.

mod cloneset;
pub(crate) mod memory;
mod nodeimage;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::names::{GROUP, V1ALPHA1, V1BETA1};

/// Why an object cannot be converted. No object that the apiserver accepted is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// It is no Kubernetes object.
    #[error(
        "the object has no apiVersion and kind, so it cannot be converted to {desired}: it must be a {GROUP} object"
    )]
    NoObject {
        /// The wanted apiVersion.
        desired: String,
    },
    /// A kind that has no versions here.
    #[error(
        "kind {kind} of {api_version} cannot be converted: only CloneSet, ImageListPullJob, ImagePullJob and NodeImage can"
    )]
    UnknownKind {
        /// The object's apiVersion.
        api_version: String,
        /// The object's kind.
        kind: String,
    },
    /// A version that is not served.
    #[error(
        "{kind} cannot be converted from {from} to {desired}: only {GROUP}/{V1ALPHA1} and {GROUP}/{V1BETA1} are known"
    )]
    UnknownVersion {
        /// The object's kind.
        kind: String,
        /// The object's apiVersion.
        from: String,
        /// The wanted apiVersion.
        desired: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Alpha1,
    V1Beta1,
}

impl Version {
    fn of(api_version: &str) -> Option<Self> {
        match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
            V1ALPHA1 => Some(Self::V1Alpha1),
            V1BETA1 => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => V1ALPHA1,
            Self::V1Beta1 => V1BETA1,
        }
    }
}

/// Converts a CloneSet, ImageListPullJob, ImagePullJob or NodeImage to another version. Of the metadata, only labels and annotations may
/// change.
///
/// # Errors
/// When the object is of no kind or version that is known here; never for what is in it.
pub fn convert(mut object: Value, desired_api_version: &str) -> Result<Value, ConversionError> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        return Err(ConversionError::NoObject { desired: desired_api_version.to_owned() });
    };
    let (Some(from), Some(to)) = (Version::of(&api_version), Version::of(desired_api_version)) else {
        return Err(ConversionError::UnknownVersion {
            kind,
            from: api_version,
            desired: desired_api_version.to_owned(),
        });
    };
    let Some(mapping) = Mapping::of(&kind) else {
        return Err(ConversionError::UnknownKind { api_version, kind });
    };
    if from != to {
        object = mapping.convert(object, from, to);
        object["apiVersion"] = Value::from(desired_api_version);
    }
    Ok(object)
}

/// How one kind's versions relate.
struct Mapping {
    to_v1beta1: fn(&mut Value),
    to_v1alpha1: fn(&mut Value),
    /// Where the mapping changes anything: the only places that are compared, and that a memory may speak of.
    touches: &'static [&'static [&'static str]],
}

impl Mapping {
    fn of(kind: &str) -> Option<Self> {
        match kind {
            "CloneSet" => Some(cloneset::MAPPING),
            "NodeImage" => Some(nodeimage::MAPPING),
            "ImagePullJob" | "ImageListPullJob" => Some(Self { to_v1beta1: |_| (), to_v1alpha1: |_| (), touches: &[] }),
            _ => None,
        }
    }

    fn to(&self, version: Version) -> fn(&mut Value) {
        match version {
            Version::V1Alpha1 => self.to_v1alpha1,
            Version::V1Beta1 => self.to_v1beta1,
        }
    }

    fn convert(&self, mut object: Value, from: Version, to: Version) -> Value {
        let remembered = memory::take(&mut object, to.name());
        if self.touches.is_empty() {
            return object;
        }
        let mut converted = object.clone();
        self.to(to)(&mut converted);
        memory::recall(&mut converted, remembered, self.touches);
        let mut back = converted.clone();
        self.to(from)(&mut back);
        memory::keep(&mut converted, from.name(), memory::losses(&back, &object, self.touches));
        converted
    }
}
