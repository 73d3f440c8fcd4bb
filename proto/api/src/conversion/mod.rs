//! Conversion between v1alpha1 and v1beta1, in both directions and without loss.
//!
//! Each kind has a plain mapping of what both versions can say. Whatever the mapping alone would lose is found by mapping
//! the result back and comparing, and travels in one annotation, see [`memory`]. So the mapping may stay simple: it
//! decides how an object reads in the other version, never whether it survives.
//!
//! Only what a mapping touches is ever read ([`json`]): everything else, the template above all, is passed on as the text
//! that it is. So no object is too deep to be converted, and a conversion takes little more memory than the object's text.

pub(crate) mod cloneset;
pub(crate) mod containerrecreaterequest;
pub(crate) mod daemonset;
mod json;
pub(crate) mod memory;
pub(crate) mod nodeimage;
pub(crate) mod persistentpodstate;
pub(crate) mod podunavailablebudget;
pub(crate) mod sidecarset;
#[cfg(test)]
mod tests;
pub(crate) mod uniteddeployment;

use serde::Deserialize;

use self::json::Json;
use self::memory::Place;
use crate::kinds::{self, KINDS, Version};
use crate::weight::Limits;

/// Why an object cannot be converted. No object that the apiserver accepted is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// It is no Kubernetes object.
    #[error(
        "the object has no apiVersion and kind, so it cannot be converted to {desired}: it must be a {} object",
        groups()
    )]
    NoObject {
        /// The wanted apiVersion.
        desired: String,
    },
    /// A kind that has no versions here.
    #[error(
        "kind {kind} of {api_version} cannot be converted: only {} can",
        listed(convertible())
    )]
    UnknownKind {
        /// The object's apiVersion.
        api_version: String,
        /// The object's kind.
        kind: String,
    },
    /// A version that is not served.
    #[error(
        "{kind} cannot be converted from {from} to {desired}: only {} known",
        served(kind)
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

/// `a, b and c`.
fn listed(names: Vec<String>) -> String {
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn convertible() -> Vec<String> {
    kinds::converted()
        .map(|kind| kind.kind.to_owned())
        .collect()
}

/// The versions of a kind, and the verb that goes with them.
fn served(kind: &str) -> String {
    let versions: Vec<_> = kinds::named(kind)
        .iter()
        .flat_map(|kind| kind.versions().map(|version| kind.api_version(version)))
        .collect();
    let verb = if versions.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", listed(versions))
}

fn groups() -> String {
    let mut groups: Vec<_> = KINDS.iter().map(|kind| kind.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.join(" or ")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    api_version: String,
    kind: String,
}

/// Converts the text of an object of one of our kinds to another version. Of the metadata, only labels and annotations may
/// change.
///
/// # Errors
/// When the object is of no kind or version that is known here; never for what is in it.
pub fn convert(object: &str, desired_api_version: &str) -> Result<String, ConversionError> {
    let Ok(Typed { api_version, kind }) = serde_json::from_str(object) else {
        return Err(ConversionError::NoObject {
            desired: desired_api_version.to_owned(),
        });
    };
    let Some(known) = kinds::named(&kind) else {
        return Err(ConversionError::UnknownKind { api_version, kind });
    };
    let (Some(from), Some(to)) = (
        known.version(&api_version),
        known.version(desired_api_version),
    ) else {
        return Err(ConversionError::UnknownVersion {
            kind,
            from: api_version,
            desired: desired_api_version.to_owned(),
        });
    };
    if from == to {
        return Ok(object.to_owned());
    }
    let mut converted = known.mapping.convert(Json::of(object), from, to);
    if let Some(fields) = converted.object() {
        fields.insert("apiVersion", Json::string(desired_api_version));
    }
    Ok(converted.to_string())
}

/// How one kind's versions relate.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    to_v1beta1: fn(&mut Json<'_>),
    to_v1alpha1: fn(&mut Json<'_>),
    /// Where the mapping changes anything: the only places that are compared, and that a memory may speak of.
    touches: &'static [&'static [&'static str]],
    /// Places of v1beta1 that several of v1alpha1 say together. What v1alpha1 had comes back only where it maps to what is there
    /// now: one of several places, brought back beside an edit of another, would undo the edit.
    decides: &'static [&'static [&'static str]],
    /// Whether the types of a version read what the mapping touches.
    is_read: fn(&mut Json<'_>, Version) -> bool,
}

impl Mapping {
    /// Of a kind that is the same in each of its versions, or has one alone.
    pub(crate) const SAME: Self = Self {
        to_v1beta1: |_| (),
        to_v1alpha1: |_| (),
        touches: &[],
        decides: &[],
        is_read: |_, _| true,
    };

    fn to(&self, version: Version) -> fn(&mut Json<'_>) {
        match version {
            Version::V1Alpha1 => self.to_v1alpha1,
            Version::V1Beta1 => self.to_v1beta1,
        }
    }

    fn convert<'a>(&self, mut object: Json<'a>, from: Version, to: Version) -> Json<'a> {
        let remembered = memory::take(&mut object, to.name());
        if self.touches.is_empty() {
            return object;
        }
        let mut converted = object.clone();
        self.to(to)(&mut converted);
        self.recall(&mut converted, &remembered, &mut object, to);
        memory::drop_empty(&mut converted);
        let mut back = converted.clone();
        self.to(from)(&mut back);
        memory::keep(
            &mut converted,
            from.name(),
            memory::losses(&mut back, &mut object, self.touches),
        );
        converted
    }

    /// Restores what was remembered, unless the object could be read before and cannot after: such a memory was forged. Nor if it
    /// contradicts the object that is converted, which was edited since.
    fn recall(
        &self,
        converted: &mut Json<'_>,
        remembered: &[Place],
        object: &mut Json<'_>,
        to: Version,
    ) {
        if remembered.is_empty() {
            return;
        }
        let before = converted.clone();
        memory::recall(converted, remembered, self.touches);
        let is_forged = !self.reads(converted, to) && self.reads(&mut before.clone(), to);
        if is_forged || !self.agrees(converted, object, to) {
            *converted = before;
        }
    }

    fn agrees(&self, recalled: &Json<'_>, object: &mut Json<'_>, to: Version) -> bool {
        if to != Version::V1Alpha1 || self.decides.is_empty() {
            return true;
        }
        let mut again = recalled.clone();
        self.to(Version::V1Beta1)(&mut again);
        self.decides
            .iter()
            .all(|path| match (again.at(path), object.at(path)) {
                (Some(again), Some(object)) => again.equals(object),
                (again, object) => again.is_none() && object.is_none(),
            })
    }

    fn reads(&self, object: &mut Json<'_>, version: Version) -> bool {
        let mut touched = self
            .touches
            .iter()
            .filter(|path| path.first() == Some(&"spec"));
        let is_light = |path: &&[&str]| {
            let text = object
                .at(path)
                .map(|value| value.to_string())
                .unwrap_or_default();
            Limits::of_node_images().check("", &text).is_ok()
        };
        touched.all(is_light) && (self.is_read)(object, version)
    }
}
