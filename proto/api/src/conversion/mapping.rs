//! The mapping between the versions of one kind.

use serde::de::DeserializeOwned;

use super::json::Json;
use super::memory::{self, Place};
use crate::version::Version;
use crate::weight::Limits;

/// The mapping between one kind's versions.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) to_v1beta1: fn(&mut Json<'_>),
    pub(crate) to_v1alpha1: fn(&mut Json<'_>),
    /// The only places that the mapping changes. Only these are compared, and a memory may name
    /// only these.
    pub(crate) touches: &'static [&'static [&'static str]],
    /// Places of v1beta1 that several places of v1alpha1 decide together. The original v1alpha1
    /// value is restored only if it maps to the present value. Otherwise one of several restored
    /// places could revert an edit of another.
    pub(crate) decides: &'static [&'static [&'static str]],
    /// Whether the types of a version can read the places that the mapping changes.
    pub(crate) is_read: fn(&mut Json<'_>, Version) -> bool,
}

impl Mapping {
    /// The mapping of a kind that has one version, or the same fields in all.
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

    pub(crate) fn convert<'a>(&self, mut object: Json<'a>, from: Version, to: Version) -> Json<'a> {
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

    /// Restores the remembered values. It does not if the object was readable before and would not
    /// be afterwards, because such a memory is forged. Nor does it if the memory contradicts the
    /// converted object, which was edited since.
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

/// Whether a type can read the value at a path, if there is one.
pub(crate) fn reads<T: DeserializeOwned>(object: &mut Json<'_>, path: &[&str]) -> bool {
    let value = object.at(path);
    value.is_none_or(|value| serde_json::from_str::<T>(&value.to_string()).is_ok())
}

/// Whether the type of a part, such as `spec`, can read these fields of it.
pub(crate) fn reads_fields<T: DeserializeOwned>(
    object: &mut Json<'_>,
    part: &str,
    fields: &[&str],
) -> bool {
    let mut texts = Vec::new();
    for field in fields {
        let value = object.at(&[part, field]);
        texts.extend(value.map(|value| format!("{field:?}:{value}")));
    }
    serde_json::from_str::<T>(&format!("{{{}}}", texts.join(","))).is_ok()
}
