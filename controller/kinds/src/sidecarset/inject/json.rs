//! Lists and maps of an object.

use serde_json::{Map, Value};

/// The map in a field, which is created if it is missing. `None` if the field has another type.
pub(super) fn map<'a>(
    holder: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    let map = holder.entry(name).or_insert(Value::Null);
    if map.is_null() {
        *map = Value::Object(Map::new());
    }
    map.as_object_mut()
}

/// Takes a list out of its holder; empty if the holder has none.
pub(super) fn taken(holder: &mut Map<String, Value>, list: &str) -> Vec<Value> {
    match holder.remove(list) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}
