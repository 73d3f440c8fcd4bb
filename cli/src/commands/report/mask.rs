//! What leaves the cluster: objects without values that may be secret.

use serde_json::{Map, Value, json};

/// Stands for a value.
pub(super) const MASK: &str = "<masked>";
/// The manifest that kubectl applied, with all values of variables.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Lists of names and values.
const NAMED_VALUES: [&str; 2] = ["env", "httpHeaders"];

/// The object without `managedFields`, values of variables and of HTTP headers, content of Secrets,
/// and the applied manifest.
pub(super) fn masked(object: &Value) -> Value {
    match object {
        Value::Object(fields) => {
            let is_secret = fields.get("kind").is_some_and(|kind| kind == "Secret");
            let fields = fields
                .iter()
                .filter(|(name, _)| *name != "managedFields")
                .map(|(name, value)| {
                    let value = match name.as_str() {
                        "data" | "stringData" if is_secret => json!(MASK),
                        "annotations" => annotations(value),
                        list if NAMED_VALUES.contains(&list) => without_values(value),
                        _ => masked(value),
                    };
                    (name.clone(), value)
                });
            Value::Object(fields.collect())
        }
        Value::Array(all) => Value::Array(all.iter().map(masked).collect()),
        other => other.clone(),
    }
}

/// Annotations. Some contain JSON with variables, such as the patch of a UnitedDeployment's subset.
fn annotations(value: &Value) -> Value {
    let Some(all) = value.as_object() else {
        return masked(value);
    };
    let all = all.iter().map(|(name, value)| {
        if name == APPLIED {
            return (name.clone(), json!(MASK));
        }
        let inner: Option<Value> = value
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        let value = match inner {
            Some(inner @ (Value::Object(_) | Value::Array(_))) if masked(&inner) != inner => {
                json!(masked(&inner).to_string())
            }
            _ => masked(value),
        };
        (name.clone(), value)
    });
    Value::Object(all.collect::<Map<_, _>>())
}

/// A list of `{name, value}` without its values.
fn without_values(list: &Value) -> Value {
    let Some(all) = list.as_array() else {
        return json!(MASK);
    };
    let all = all.iter().map(|one| {
        let mut one = masked(one);
        if let Some(value) = one.get_mut("value") {
            *value = json!(MASK);
        }
        one
    });
    Value::Array(all.collect())
}
