//! The memory that an object takes when it is read, estimated from its text before it is parsed.
//!
//! As a tree in memory, JSON can take a hundred times its text: `{"":0}` is 6 bytes, and a map of
//! one entry more than 600. So the values are counted in addition to the bytes. Fields of a schema
//! are typed and need no such limit, but a template can have any content.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::names::label::SUBSET_NAME;

/// The bytes of an object's spec without another limit.
pub const DEFAULT_MAX_BYTES: usize = 256 << 10;
/// The most values (objects, lists, texts, numbers) of a spec. A template with 4,000 variables has
/// 12,000.
pub const MAX_VALUES: usize = 16_384;
/// The bytes of an object that etcd accepts, plus a margin.
const MOST_STORED: usize = 2 << 20;
/// The deepest nesting of values. The parser's limit is 128, and the levels around a template count
/// there.
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
    /// Measures JSON text with constant stack. Text that is no JSON has a weight, too.
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
                // The first byte of another value. Directly after an opened container it is the
                // first entry.
                _ => weight.values += usize::from(opened),
            }
            opened = matches!(byte, b'{' | b'[');
        });
        weight
    }
}

/// Calls `seen` with each byte outside of texts and its depth. Of a text it sees only the first
/// quotation mark; it skips white space.
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

/// The limits of a field's text, up to which it may be parsed.
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
    /// For Kubernetes' own kinds: the limits hold for the status, too, and a text that is too short
    /// to exceed them is not measured.
    pub foreign: bool,
    /// The limits hold only for objects with this label, or with an owner of this kind.
    pub only: Option<(&'static str, &'static str)>,
}

impl Limits {
    /// Limits of an object's `spec`. `max_bytes` is the value of the flag.
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

    /// Limits of a revision's `data`. It has a template with some defaults, and with `<`, `>` and
    /// `&` as six bytes each. The limits must accept the revision of every accepted template.
    pub const fn of_revisions(max_bytes: usize) -> Self {
        Self {
            bytes: max_bytes.saturating_mul(6),
            values: 2 * MAX_VALUES,
            depth: MAX_DEPTH + 8,
            ..Self::of_specs(0)
        }
    }

    /// Limits of a NodeImage's `spec`, which the controller writes: the bytes that etcd accepts,
    /// and four times the values of the largest one that the controller writes.
    pub const fn of_node_images() -> Self {
        Self {
            values: 1 << 16,
            ..Self::fixed(MOST_STORED)
        }
    }

    /// Limits of each part of a pod: the bytes that etcd accepts, and the values of a template in
    /// Berth's kinds.
    pub const fn of_pods() -> Self {
        Self {
            foreign: true,
            ..Self::fixed(MOST_STORED)
        }
    }

    /// Limits of the `spec` of a budget, whose selector is kept as it is.
    pub const fn of_budgets() -> Self {
        Self {
            values: 4_096,
            ..Self::fixed(64 << 10)
        }
    }

    /// Limits of each part of a PodDisruptionBudget.
    pub const fn of_native_budgets() -> Self {
        Self {
            foreign: true,
            ..Self::of_budgets()
        }
    }

    /// Limits of each part of a Deployment or StatefulSet of Kubernetes that is a subset's
    /// workload. The apiserver has added defaults to the controller's template.
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

    /// Limits that no flag changes.
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

    /// Whether the text needs no measuring: it is of a Kubernetes kind, and either too short to
    /// exceed the limits or an object that they do not hold for. The parser has its own depth
    /// limit.
    pub fn is_light(&self, object: &str) -> bool {
        // A value has at least one byte, and a comma or a bracket before it.
        let is_short = object.len() <= self.bytes.min(2 * self.values);
        self.foreign
            && (is_short
                || self
                    .only
                    .is_some_and(|(label, kind)| !is_of(object, label, kind)))
    }

    /// Checks whether a pod may be parsed.
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

    /// Limits of an object's `metadata` without managed fields. The apiserver accepts 256 KiB of
    /// annotations. Labels, finalizers and owner references are limited by etcd only.
    const fn of_metadata() -> Self {
        Self::fixed(512 << 10)
    }

    /// Checks whether a field's text may be parsed.
    ///
    /// # Errors
    /// The field, its size, the limit, and the remedy.
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

    /// Checks whether an object may be parsed: its `spec` or a revision's `data`, its metadata, and
    /// the status of a Kubernetes kind. The text must have no managed fields
    /// ([`without_managed_fields`]).
    ///
    /// # Errors
    /// As [`Limits::check`]; an object that cannot be measured, for example with a duplicate field,
    /// is refused.
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

/// The measured parts of an object, as text.
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

/// The part of an object that is removed.
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

/// An object's text without `metadata.managedFields`, which Berth does not read. They have an entry
/// for each field that any client wrote, as deep as the object, and as a tree they would take as
/// much memory.
pub fn without_managed_fields(object: &str) -> Cow<'_, str> {
    let Ok(Managed {
        metadata: Some(Metadata {
            managed_fields: Some(fields),
        }),
    }) = serde_json::from_str(object)
    else {
        return Cow::Borrowed(object);
    };
    // A raw value is a slice of the text that it was parsed from.
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
