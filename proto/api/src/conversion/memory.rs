//! What the version that an object is in cannot express, kept in an annotation until the object returns.
//!
//! A memory is a list of places. Each has the value that the plain mapping finds there on return, and the value that was
//! really there. If on return the mapping finds something else, a client has edited the object in between, and the edit
//! counts; otherwise the place gets its own value back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::annotation::CONVERSION;

/// One step on the way to a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Index(usize),
    Key(String),
}

/// One place and its two values; a value that is missing was missing there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    path: Vec<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mapped: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original: Option<Value>,
}

/// The annotation's value: for which version, what.
#[derive(Serialize, Deserialize)]
struct Memory {
    version: String,
    places: Vec<Place>,
}

/// Removes the annotation and returns what it has for this version. A memory for another version, or one that cannot be
/// read, was copied from elsewhere and is dropped.
pub(super) fn take(object: &mut Value, version: &str) -> Vec<Place> {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Vec::new() };
    let Some(annotation) = remove_entry(metadata, "annotations", CONVERSION) else { return Vec::new() };
    let memory = annotation.as_str().and_then(|text| serde_json::from_str::<Memory>(text).ok());
    memory.filter(|memory| memory.version == version).map(|memory| memory.places).unwrap_or_default()
}

/// Gives every place that was not edited its own value back.
pub(super) fn recall(object: &mut Value, places: Vec<Place>, touches: &[&[&str]]) {
    for place in places {
        if touches.iter().any(|root| is_below(&place.path, root)) {
            restore(object, place);
        }
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, value| {
            !(field == "labels" || field == "annotations") || value.as_object().is_none_or(|map| !map.is_empty())
        });
    }
}

/// Writes the annotation, if there is anything to remember.
pub(super) fn keep(object: &mut Value, version: &str, places: Vec<Place>) {
    if places.is_empty() {
        return;
    }
    let Ok(text) = serde_json::to_string(&Memory { version: version.to_owned(), places }) else { return };
    if let Some(metadata) = object_at(object, "metadata") {
        set_entry(metadata, "annotations", CONVERSION, Value::from(text));
    }
}

/// The places where an object that was mapped there and back differs from what it was.
pub(super) fn losses(mapped: &Value, original: &Value, touches: &[&[&str]]) -> Vec<Place> {
    let mut places = Vec::new();
    for root in touches {
        let mut path = root.iter().map(|key| Step::Key((*key).to_owned())).collect();
        compare(&mut path, lookup(mapped, root), lookup(original, root), &mut places);
    }
    places
}

fn compare(path: &mut Vec<Step>, mapped: Option<&Value>, original: Option<&Value>, places: &mut Vec<Place>) {
    match (mapped, original) {
        (mapped, original) if mapped == original => {}
        (Some(Value::Object(mapped)), Some(Value::Object(original))) => {
            for key in original.keys().chain(mapped.keys().filter(|key| !original.contains_key(*key))) {
                path.push(Step::Key(key.clone()));
                compare(path, mapped.get(key), original.get(key), places);
                path.pop();
            }
        }
        (Some(Value::Array(mapped)), Some(Value::Array(original))) if mapped.len() == original.len() => {
            for (index, (mapped, original)) in mapped.iter().zip(original).enumerate().filter(|(_, (m, o))| m != o) {
                let path = path.iter().cloned().chain([Step::Index(index)]).collect();
                places.push(Place { path, mapped: Some(mapped.clone()), original: Some(original.clone()) });
            }
        }
        (mapped, original) => {
            places.push(Place { path: path.clone(), mapped: mapped.cloned(), original: original.cloned() });
        }
    }
}

fn restore(object: &mut Value, place: Place) {
    let Some((last, parents)) = place.path.split_last() else { return };
    let Some(parent) = parent(object, parents) else { return };
    match (parent, last) {
        (Value::Object(map), Step::Key(key)) if map.get(key) == place.mapped.as_ref() => {
            match place.original {
                Some(original) => map.insert(key.clone(), original),
                None => map.remove(key),
            };
        }
        (Value::Array(items), Step::Index(index)) => {
            let Some(mapped) = &place.mapped else { return };
            // Where it was; or wherever an edit of the list has moved it.
            let at = Some(*index).filter(|index| items.get(*index) == Some(mapped));
            let at = at.or_else(|| items.iter().position(|item| item == mapped));
            if let (Some(item), Some(original)) = (at.and_then(|at| items.get_mut(at)), place.original) {
                *item = original;
            }
        }
        _ => {}
    }
}

/// The object or list that a place is in. Labels and annotations are made when there are none; nothing else is.
fn parent<'a>(object: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    let mut current = object;
    for (depth, step) in path.iter().enumerate() {
        current = match step {
            Step::Key(key) if depth == 1 && path.first() == Some(&Step::Key("metadata".to_owned())) => {
                current.as_object_mut()?.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()))
            }
            Step::Key(key) => current.get_mut(key)?,
            Step::Index(index) => current.get_mut(*index)?,
        };
    }
    Some(current)
}

fn is_below(path: &[Step], root: &[&str]) -> bool {
    let mut steps = path.iter();
    root.iter().all(|key| matches!(steps.next(), Some(Step::Key(step)) if step == key))
}

fn lookup<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The object in a field, made if the field is missing. `None` if it is something else.
pub(super) fn object_at<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let object = value.as_object_mut()?;
    object.entry(field.to_owned()).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// Sets `map[field][key]`, making `map[field]` if it is missing.
pub(super) fn set_entry(map: &mut Map<String, Value>, field: &str, key: &str, value: Value) {
    let inner = map.entry(field.to_owned()).or_insert_with(|| Value::Object(Map::new()));
    if let Some(inner) = inner.as_object_mut() {
        inner.insert(key.to_owned(), value);
    }
}

/// Removes `map[field][key]`, and `map[field]` if nothing is left in it.
pub(super) fn remove_entry(map: &mut Map<String, Value>, field: &str, key: &str) -> Option<Value> {
    let inner = map.get_mut(field)?.as_object_mut()?;
    let removed = inner.remove(key)?;
    if inner.is_empty() {
        map.remove(field);
    }
    Some(removed)
}
