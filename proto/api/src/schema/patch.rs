//! Adding to a schema by field path.

use serde_json::{Map, Value};

/// Keywords for the schema of one field.
#[derive(Clone)]
pub(crate) struct Patch {
    /// The field, in the notation of `kubectl explain`: names with dots, `[]` for the items of a
    /// list, `{}` for the values of a map. Empty for the root.
    pub(crate) path: String,
    /// Keywords. Validations and fields are added to the existing ones, a null field is removed,
    /// and all other keywords replace.
    pub(crate) keywords: Value,
}

/// Adds keywords to the schema of a field.
pub(crate) fn at(path: impl Into<String>, keywords: Value) -> Patch {
    let path = path.into();
    Patch { path, keywords }
}

const VALIDATIONS: &str = "x-kubernetes-validations";
const FIELDS: &str = "properties";

/// Applies a patch, or returns its path when there is no such field.
pub(crate) fn apply(schema: &mut Map<String, Value>, patch: &Patch) -> Result<(), String> {
    let target = find(schema, &patch.path).ok_or_else(|| patch.path.clone())?;
    for (keyword, value) in patch.keywords.as_object().into_iter().flatten() {
        match (target.get_mut(keyword), value) {
            (Some(Value::Array(present)), Value::Array(more)) if keyword == VALIDATIONS => {
                present.extend(more.iter().cloned());
            }
            (Some(Value::Object(present)), Value::Object(more)) if keyword == FIELDS => {
                present.extend(more.clone());
                present.retain(|_, field| !field.is_null());
            }
            _ => {
                target.insert(keyword.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn find<'a>(schema: &'a mut Map<String, Value>, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut current = of_present(schema)?;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let name_end = segment.find(['[', '{']).unwrap_or(segment.len());
        let (name, mut rest) = segment.split_at(name_end);
        if !name.is_empty() {
            let fields = current.get_mut(FIELDS)?.as_object_mut()?;
            current = of_present(fields.get_mut(name)?.as_object_mut()?)?;
        }
        while !rest.is_empty() {
            let keyword = if rest.starts_with("[]") {
                "items"
            } else {
                "additionalProperties"
            };
            current = of_present(current.get_mut(keyword)?.as_object_mut()?)?;
            rest = rest.get(2..)?;
        }
    }
    Some(current)
}

/// The schema of a present value. For an optional field it is one of two.
fn of_present(schema: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    match schema.contains_key("anyOf") {
        true => schema.get_mut("anyOf")?.get_mut(0)?.as_object_mut(),
        false => Some(schema),
    }
}
