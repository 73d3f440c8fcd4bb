//! Adding to a schema by field path.

use serde_json::{Map, Value};

/// What the schema of one field gets.
pub(crate) struct Patch {
    /// The field, as `kubectl explain` has it: names with dots, `[]` for the items of a list, `{}` for the values of a
    /// map. Empty for the root.
    pub(crate) path: String,
    /// Keywords. Validations and fields are added to those that are there, everything else replaces.
    pub(crate) keywords: Map<String, Value>,
}

const VALIDATIONS: &str = "x-kubernetes-validations";
const FIELDS: &str = "properties";

/// Applies a patch, or returns its path when there is no such field.
pub(crate) fn apply(schema: &mut Value, patch: &Patch) -> Result<(), String> {
    let target = find(schema, &patch.path)
        .and_then(Value::as_object_mut)
        .ok_or_else(|| patch.path.clone())?;
    for (keyword, value) in &patch.keywords {
        match (target.get_mut(keyword), value) {
            (Some(Value::Array(present)), Value::Array(more)) if keyword == VALIDATIONS => {
                present.extend(more.iter().cloned());
            }
            (Some(Value::Object(present)), Value::Object(more)) if keyword == FIELDS => {
                present.extend(more.clone())
            }
            _ => {
                target.insert(keyword.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn find<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut current = schema;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let name_end = segment.find(['[', '{']).unwrap_or(segment.len());
        let (name, mut rest) = segment.split_at(name_end);
        current = current.get_mut("properties")?.get_mut(name)?;
        while !rest.is_empty() {
            let keyword = if rest.starts_with("[]") {
                "items"
            } else {
                "additionalProperties"
            };
            current = current.get_mut(keyword)?;
            rest = rest.get(2..)?;
        }
    }
    Some(current)
}
