//! Fields of objects that several commands read.

use serde_json::Value;

/// The name of an object.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The namespace of an object; empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// The string at a JSON pointer, or an empty one.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The number at a JSON pointer, or 0.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The items of the list at a JSON pointer.
pub fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The condition of a type in an object's status.
pub fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").find(|one| one["type"] == name)
}

/// The owner that controls an object.
pub fn controller(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences").find(|one| one["controller"] == true)
}

/// The label selector of a workload as a query, such as `app=web,tier in (a,b)`; `None` if it has
/// none.
pub fn selector(workload: &Value) -> Option<String> {
    let selector = workload.pointer("/spec/selector")?;
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let equal = equal.into_iter().flatten();
    let mut parts: Vec<_> = equal
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for one in items(selector, "/matchExpressions") {
        let key = text(one, "/key");
        let values: Vec<_> = items(one, "/values").filter_map(Value::as_str).collect();
        let values = values.join(",");
        parts.push(match text(one, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    Some(parts.join(",")).filter(|query| !query.is_empty())
}

#[cfg(test)]
mod tests;
