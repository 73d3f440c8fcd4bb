//! The difference of two objects, as the smallest JSON merge patch (RFC 7396) from one to the
//! other.

use serde_json::{Map, Value};

/// The merge patch from `old` to `new`, or `None` if they are equal. Null fields count as absent.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for (key, old) in old {
        if !old.is_null() && new.get(key).is_none_or(Value::is_null) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, new) in new.iter().filter(|(_, new)| !new.is_null()) {
        match old.get(key).filter(|old| !old.is_null()) {
            None => {
                patch.insert(key.clone(), new.clone());
            }
            Some(old) => {
                if let Some(change) = merge_patch(old, new) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests;
