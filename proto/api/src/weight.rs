//! What an object asks of whoever reads it: measured on its text, before any of it is read into memory.
//!
//! As a tree in memory, JSON can take a hundred times its text: `{"":0}` is 6 bytes, and a map of one entry more than 600.
//! So besides the bytes, the values are counted. Fields that a schema names are typed and need no such care; what a
//! template holds is anything at all.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::names::label::SUBSET_NAME;

/// The bytes that the spec of an object may have where nothing else is said.
pub const DEFAULT_MAX_BYTES: usize = 256 << 10;
/// The values (objects, lists, texts, numbers) that a spec may have. A template with 4,000 variables has 12,000.
pub const MAX_VALUES: usize = 16_384;
/// As many bytes as etcd takes of an object, and some more.
const MOST_STORED: usize = 2 << 20;
/// How deep values may be nested. The parser ends at 128, and what is written around a template counts there.
pub const MAX_DEPTH: usize = 100;

/// The size of JSON text in three ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Bytes of text.
    pub bytes: usize,
    /// Values: each object, list, text, number, boolean and null.
    pub values: usize,
    /// Levels of objects and lists inside each other.
    pub depth: usize,
}

impl Weight {
    /// Measures JSON text, without a stack that grows with its depth. Text that is no JSON has some weight, too.
    pub fn of(text: &str) -> Self {
        let mut weight = Self {
            bytes: text.len(),
            values: 1,
            depth: 0,
        };
        let mut opened = false;
        scan(text, |byte, depth| {
            match byte {
                b'{' | b'[' => {
                    weight.values += usize::from(opened);
                    weight.depth = weight.depth.max(depth);
                }
                b',' => weight.values += 1,
                b'}' | b']' => {}
                // The first of another value: of a container that was opened just before, it is the first entry.
                _ => weight.values += usize::from(opened),
            }
            opened = matches!(byte, b'{' | b'[');
        });
        weight
    }
}

/// Shows the bytes outside of texts (of a text, its first quotation mark alone) with the depth that they are at; white
/// space is left out.
pub(crate) fn scan(text: &str, mut seen: impl FnMut(u8, usize)) {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'"' => in_text = true,
            b'{' | b'[' => depth += 1,
            _ => {}
        }
        seen(byte, depth);
        if matches!(byte, b'}' | b']') {
            depth = depth.saturating_sub(1);
        }
    }
}

/// What the text of a field may be at most to be read into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Values.
    pub values: usize,
    /// Levels.
    pub depth: usize,
    /// Whether a flag of the controller raises `bytes`.
    pub by_flag: bool,
    /// Of a kind of Kubernetes: the limits hold for its status, too, and a text that is too short to go beyond them is not weighed.
    pub foreign: bool,
    /// The limits hold only for objects with this label, or with an owner of this kind.
    pub only: Option<(&'static str, &'static str)>,
}

impl Limits {
    /// Of an object's `spec`, where `max_bytes` is what a flag says.
    pub const fn of_specs(max_bytes: usize) -> Self {
        Self {
            bytes: max_bytes,
            values: MAX_VALUES,
            depth: MAX_DEPTH,
            by_flag: true,
            foreign: false,
            only: None,
        }
    }

    /// Of a revision's `data`. It holds a template with a few fields more than were written, and with `<`, `>` and `&` in six
    /// bytes each; no revision of a template that is read may be refused.
    pub const fn of_revisions(max_bytes: usize) -> Self {
        Self {
            bytes: max_bytes.saturating_mul(6),
            values: 2 * MAX_VALUES,
            depth: MAX_DEPTH + 8,
            ..Self::of_specs(0)
        }
    }

    /// Of a NodeImage's `spec`, which the controller writes: as much as etcd takes, and four times the values of those that it
    /// writes.
    pub const fn of_node_images() -> Self {
        Self {
            values: 1 << 16,
            ..Self::fixed(MOST_STORED)
        }
    }

    /// Of each part of a pod: as many bytes as etcd takes, and as many values as a template of ours may have.
    pub const fn of_pods() -> Self {
        Self {
            foreign: true,
            ..Self::fixed(MOST_STORED)
        }
    }

    /// Of the `spec` of a budget, whose selector is kept as it is.
    pub const fn of_budgets() -> Self {
        Self {
            values: 4_096,
            ..Self::fixed(64 << 10)
        }
    }

    /// Of each part of a PodDisruptionBudget.
    pub const fn of_native_budgets() -> Self {
        Self {
            foreign: true,
            ..Self::of_budgets()
        }
    }

    /// Of each part of a Deployment or StatefulSet of Kubernetes that is a subset's workload. The
    /// apiserver has added defaults to what the controller wrote.
    pub const fn of_subsets(max_bytes: usize) -> Self {
        let bytes = max_bytes.saturating_mul(2);
        Self {
            bytes,
            values: 4 * MAX_VALUES,
            foreign: true,
            only: Some((SUBSET_NAME, "UnitedDeployment")),
            ..Self::of_specs(0)
        }
    }

    /// That no flag changes.
    pub const fn fixed(bytes: usize) -> Self {
        Self {
            bytes,
            values: MAX_VALUES,
            depth: MAX_DEPTH,
            by_flag: false,
            foreign: false,
            only: None,
        }
    }

    /// Whether the text is of a kind of Kubernetes and so short that it cannot go beyond the limits, or is none that they
    /// hold for. The parser ends at its own depth.
    pub fn is_light(&self, object: &str) -> bool {
        // A value has a byte, and a comma or a bracket before it.
        let is_short = object.len() <= self.bytes.min(2 * self.values);
        self.foreign
            && (is_short
                || self
                    .only
                    .is_some_and(|(label, kind)| !is_of(object, label, kind)))
    }

    /// Whether a pod may be read into memory.
    ///
    /// # Errors
    /// As [`Limits::check_object`].
    pub fn check_pod(pod: &str) -> Result<(), String> {
        let limits = Self::of_pods();
        if limits.is_light(pod) {
            Ok(())
        } else {
            limits.check_object(&without_managed_fields(pod))
        }
    }

    /// Of an object's `metadata` without managed fields: the apiserver takes 256 KiB of annotations, and of labels, finalizers
    /// and owner references as much as fits into etcd.
    const fn of_metadata() -> Self {
        Self::fixed(512 << 10)
    }

    /// Whether a field's text may be read into memory.
    ///
    /// # Errors
    /// The field, how much it is, the limit, and the remedy.
    pub fn check(&self, field: &str, text: &str) -> Result<(), String> {
        if text.len() > self.bytes {
            let or_raise = if self.by_flag {
                ", or raise the chart's value controller.objectMaxBytes (the flag --object-max-bytes)"
            } else {
                ""
            };
            return Err(format!(
                "{field}: has {} bytes of JSON, and {} are the limit: keep large data in a ConfigMap or a volume{or_raise}",
                text.len(),
                self.bytes
            ));
        }
        let Weight { values, depth, .. } = Weight::of(text);
        if values > self.values {
            return Err(format!(
                "{field}: has {values} JSON values, and {} are the limit: remove fields that no pod has, and keep long lists in a \
                 ConfigMap",
                self.values
            ));
        }
        if depth > self.depth {
            return Err(format!(
                "{field}: is nested {depth} levels deep, and {} are the limit: remove the fields that no pod has",
                self.depth
            ));
        }
        Ok(())
    }

    /// Whether the `spec` of an object, or the `data` of a revision, may be read into memory, its metadata, and the status of a
    /// kind of Kubernetes: without managed
    /// fields, which are left out before ([`without_managed_fields`]).
    ///
    /// # Errors
    /// As [`Limits::check`]; and what cannot be weighed, such as an object in which a field is twice, is refused.
    pub fn check_object(&self, object: &str) -> Result<(), String> {
        let parts = serde_json::from_str::<Parts<'_>>(object);
        let Parts {
            metadata,
            spec,
            data,
            status,
        } = parts.map_err(|error| format!("the object cannot be read: {error}"))?;
        let metadata = metadata.map(|metadata| ("metadata", Self::of_metadata(), metadata));
        let (spec, data) = (
            spec.map(|spec| ("spec", *self, spec)),
            data.map(|data| ("data", *self, data)),
        );
        let status = status
            .filter(|_| self.foreign)
            .map(|status| ("status", *self, status));
        let mut parts = [metadata, spec, data, status].into_iter().flatten();
        parts.try_for_each(|(field, limits, text)| limits.check(field, text.get()))
    }
}

/// The parts of an object that are weighed, as text.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// Whether an object has a label of this key or an owner of this kind.
fn is_of(object: &str, key: &str, kind: &str) -> bool {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Marks<'a>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Marks<'a> {
        #[serde(borrow)]
        labels: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
        #[serde(borrow)]
        owner_references: Option<Vec<Owner<'a>>>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Owner<'a> {
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }
    let Ok(Object { metadata }) = serde_json::from_str(object) else {
        return false;
    };
    metadata
        .labels
        .is_some_and(|labels| labels.contains_key(key))
        || metadata
            .owner_references
            .is_some_and(|owners| owners.iter().any(|owner| owner.kind == kind))
}

/// What of an object is left out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Managed<'a> {
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// An object's text without `metadata.managedFields`, which nobody here reads: they have an entry for each field that
/// anybody wrote, as deep as the object, and as a tree they would take as much memory.
pub fn without_managed_fields(object: &str) -> Cow<'_, str> {
    let Ok(Managed {
        metadata: Some(Metadata {
            managed_fields: Some(fields),
        }),
    }) = serde_json::from_str(object)
    else {
        return Cow::Borrowed(object);
    };
    // Raw values lie in the text that they were read from.
    let begin = (fields.get().as_ptr() as usize).wrapping_sub(object.as_ptr() as usize);
    let rest = begin
        .checked_add(fields.get().len())
        .and_then(|end| object.get(end..));
    match (object.get(..begin), rest) {
        (Some(before), Some(after)) => Cow::Owned([before, "null", after].concat()),
        _ => Cow::Borrowed(object),
    }
}

#[cfg(test)]
mod tests;
