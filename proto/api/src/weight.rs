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
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn weighed(value: &Value) -> (usize, usize) {
        let children: Vec<_> = match value {
            Value::Object(map) => map.values().map(weighed).collect(),
            Value::Array(list) => list.iter().map(weighed).collect(),
            _ => return (1, 0),
        };
        let deepest = children.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        (
            1 + children.iter().map(|(values, _)| values).sum::<usize>(),
            1 + deepest,
        )
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            r#"[a",:\\{}\[\] ]{0,5}"#.prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(r#"[a"{,\\]{0,3}"#, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_weight_of_text_is_that_of_its_tree(value in any_json()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let Weight { bytes, values, depth } = Weight::of(&text);
                prop_assert_eq!((bytes, (values, depth)), (text.len(), weighed(&value)));
            }
        }
    }

    #[test]
    fn each_limit_names_field_value_limit_and_remedy() {
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        let many = format!("[{}]", vec![r#"{"":0}"#; MAX_VALUES / 2].join(","));
        let long = json!("x".repeat(999)).to_string();
        let table = [
            (deep, 1000, ["nested 101", "100"]),
            (many, DEFAULT_MAX_BYTES, ["16385 JSON values", "16384"]),
            (long, 1000, ["1001", "1000"]),
        ];
        for (text, max_bytes, says) in table {
            let error = Limits::of_specs(max_bytes)
                .check("spec.template", &text)
                .unwrap_err();
            assert!(
                error.starts_with("spec.template: ")
                    && says.iter().all(|says| error.contains(says)),
                "{error}"
            );
        }
        let deepest = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(Limits::of_specs(1000).check("spec", &deepest), Ok(()));
    }

    #[test]
    fn pod_is_weighed_in_each_part_unless_it_is_short() {
        let bomb = |part: &str, count: usize| {
            format!(
                r#"{{"{part}":{{"list":[{}]}}}}"#,
                vec![r#"{"key":"a"}"#; count].join(",")
            )
        };
        for part in ["metadata", "spec", "status"] {
            let refused = Limits::check_pod(&bomb(part, 30_000)).unwrap_err();
            assert!(
                refused.starts_with(&format!("{part}: has 60002 JSON values, and 16384")),
                "{refused}"
            );
            assert_eq!(Limits::check_pod(&bomb(part, 1_000)), Ok(()));
        }
        let long = |bytes: usize| format!(r#"{{"spec":{{"image":"{}"}}}}"#, "x".repeat(bytes));
        assert_eq!(Limits::check_pod(&long(1_300_000)), Ok(()));
        let refused = Limits::check_pod(&long(2 << 20)).unwrap_err();
        assert!(
            refused.ends_with("keep large data in a ConfigMap or a volume"),
            "{refused}"
        );
    }

    #[test]
    fn only_labelled_workload_is_bounded() {
        let limits = Limits::of_subsets(100 << 10);
        let object = |label: &str, bytes: usize| {
            format!(
                r#"{{"metadata":{{"labels":{{"{label}":"a"}}}},"spec":{{"image":"{}"}}}}"#,
                "x".repeat(bytes)
            )
        };
        let of_subset = object(SUBSET_NAME, 300 << 10);
        assert!(!limits.is_light(&of_subset) && limits.is_light(&object("app", 300 << 10)));
        let owned = object("app", 300 << 10);
        let owned = owned.replacen(
            "labels",
            r#"ownerReferences":[{"kind":"UnitedDeployment"}],"labels"#,
            1,
        );
        assert!(!limits.is_light(&owned));
        assert!(limits.is_light(&object(SUBSET_NAME, 1_000)));
        let refused = limits.check_object(&of_subset).unwrap_err();
        assert!(
            refused.starts_with("spec: has 307212 bytes of JSON, and 204800 are the limit"),
            "{refused}"
        );
        assert_eq!(limits.check_object(&object(SUBSET_NAME, 199 << 10)), Ok(()));
    }

    fn nested(field: &str, depth: usize) -> String {
        format!(
            r#"{{"{field}":{{"a":{}1{}}}}}"#,
            r#"{"a":"#.repeat(depth),
            "}".repeat(depth)
        )
    }

    #[test]
    fn of_an_object_all_parts_count_however_deep_and_managed_fields_do_not() {
        let limits = Limits::of_specs(1 << 20);
        let managed = format!(
            r#"{{"metadata":{{"managedFields":{}}}}}"#,
            nested("f:spec", 10_000)
        );
        assert_eq!(
            limits.check_object(&without_managed_fields(&managed)),
            Ok(())
        );
        assert!(
            limits
                .check_object(&nested("metadata", 10_000))
                .unwrap_err()
                .contains("metadata: is nested 10001")
        );
        assert!(
            limits
                .check_object(&nested("spec", 10_000))
                .unwrap_err()
                .contains("spec: is nested 10001")
        );
        assert!(
            Limits::of_revisions(10)
                .check_object(&nested("data", 200))
                .unwrap_err()
                .contains("data: has")
        );
    }

    #[test]
    fn an_object_that_cannot_be_weighed_is_refused() {
        let limits = Limits::of_specs(1 << 20);
        for object in [
            r#"{"data":1,"data":2,"spec":{}}"#,
            r#"{"spec":{},"spec":[{"":0}]}"#,
            "[1",
            "7",
        ] {
            assert!(
                limits
                    .check_object(object)
                    .unwrap_err()
                    .starts_with("the object cannot be read: "),
                "{object}"
            );
        }
        let owners = format!(
            r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#,
            vec!["{}"; MAX_VALUES].join(",")
        );
        assert!(
            limits
                .check_object(&owners)
                .unwrap_err()
                .starts_with("metadata: has 16386 JSON values")
        );
    }

    #[test]
    fn managed_fields_however_deep_are_left_out_and_nothing_else_is() {
        let of = |fields: &str| {
            format!(
                r#"{{"metadata":{{"name":"a","managedFields":{fields},"uid":"ü"}},"spec":{{"managedFields":1}}}}"#
            )
        };
        assert_eq!(
            without_managed_fields(&of(&nested("f:spec", 10_000))),
            of("null")
        );
        for untouched in [
            r#"{"metadata":{"name":"a"}}"#,
            "{}",
            "[1",
            r#"{"metadata":{"managedFields":null}}"#,
        ] {
            assert_eq!(without_managed_fields(untouched), untouched);
        }
    }
}
