//! The values that an object's version cannot express, kept in an annotation until the object is
//! converted back.
//!
//! A memory is a list of places. Each has the value that the mapping finds there after conversion
//! back, and the original value. If the mapping finds another value, a client has edited the object
//! in between, and the edit counts. Otherwise the place gets its original value back.
//!
//! Every user can write an annotation. So a memory is limited in size and in the work that it
//! causes, and reaches only places that the mapping touches. It is dropped as a whole if the object
//! could not be read with it ([`super::Mapping::convert`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{Compared, Json, Object};
use crate::names::annotation::CONVERSION;

/// The longest memory, which is Kubernetes' limit for all annotations together.
const LONGEST: usize = 256 << 10;
/// The most bytes that are compared to find the places of a memory. A NodeImage of 256 images with
/// four pull secrets each needs a quarter of it.
const MOST_LOOKS: usize = 16 << 20;
/// The number of bytes that each compared field name counts as.
const FIELD: usize = 16;

/// One step of the path to a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Step {
    Index(usize),
    Key(String),
}

/// One place and its two values. `None` means that the value was missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    path: Vec<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mapped: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original: Option<Box<RawValue>>,
}

/// The annotation's value: the version, and the places.
#[derive(Serialize, Deserialize)]
struct Memory {
    version: String,
    places: Vec<Place>,
}

/// Removes the annotation and returns its places for this version. A memory for another version, or
/// an unreadable one, was copied from elsewhere and is dropped.
pub(crate) fn take(object: &mut Json<'_>, version: &str) -> Vec<Place> {
    let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) else {
        return Vec::new();
    };
    let Some(annotation) = remove_entry(metadata, "annotations", CONVERSION) else {
        return Vec::new();
    };
    let text = annotation.as_string().filter(|text| text.len() <= LONGEST);
    let memory = text.and_then(|text| serde_json::from_str::<Memory>(&text).ok());
    memory
        .filter(|memory| memory.version == version)
        .map(|memory| memory.places)
        .unwrap_or_default()
}

/// Restores the original value of every place that was not edited.
pub(crate) fn recall(object: &mut Json<'_>, places: &[Place], touches: &[&[&str]]) {
    let mut looks = MOST_LOOKS;
    for place in places {
        if touches.iter().any(|root| is_below(&place.path, root))
            && restore(object, place, &mut looks).is_none()
        {
            return;
        }
    }
}

/// Removes empty labels and annotations, because Kubernetes does not store them either.
pub(crate) fn drop_empty(object: &mut Json<'_>) {
    let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) else {
        return;
    };
    for field in ["labels", "annotations"] {
        if metadata
            .get_mut(field)
            .and_then(Json::object)
            .is_some_and(|map| map.is_empty())
        {
            metadata.remove(field);
        }
    }
}

/// Writes the annotation, if there are places.
pub(crate) fn keep(object: &mut Json<'_>, version: &str, places: Vec<Place>) {
    if places.is_empty() {
        return;
    }
    let Ok(text) = serde_json::to_string(&Memory {
        version: version.to_owned(),
        places,
    }) else {
        return;
    };
    if let Some(metadata) = object
        .object()
        .and_then(|object| object_at(object, "metadata"))
    {
        set_entry(metadata, "annotations", CONVERSION, Json::string(&text));
    }
}

/// The places where an object that was mapped there and back differs from the original.
pub(crate) fn losses(
    mapped: &mut Json<'_>,
    original: &mut Json<'_>,
    touches: &[&[&str]],
) -> Vec<Place> {
    let mut places = Vec::new();
    for root in touches {
        let mut path = root
            .iter()
            .map(|key| Step::Key((*key).to_owned()))
            .collect();
        let (mapped, original) = (
            mapped.at(root).map(std::mem::take),
            original.at(root).map(std::mem::take),
        );
        compare(&mut path, mapped, original, &mut places);
    }
    places
}

/// Compares field by field, so that the memory of a large object has only the differences.
fn compare(
    path: &mut Vec<Step>,
    mapped: Option<Json<'_>>,
    original: Option<Json<'_>>,
    places: &mut Vec<Place>,
) {
    match (mapped, original) {
        (None, None) => {}
        (Some(Json::Text(mapped)), Some(Json::Text(original))) if mapped == original => {}
        (Some(mut mapped), Some(mut original)) if mapped.is_object() && original.is_object() => {
            let (Some(mapped), Some(original)) = (mapped.object(), original.object()) else {
                return;
            };
            let mut mapped: BTreeMap<_, _> =
                std::mem::take(mapped).into_fields().into_iter().collect();
            for (key, original) in std::mem::take(original).into_fields() {
                let mapped = mapped.remove(&key);
                path.push(Step::Key(key.into_owned()));
                compare(path, mapped, Some(original), places);
                path.pop();
            }
            for (key, mapped) in mapped {
                path.push(Step::Key(key.into_owned()));
                compare(path, Some(mapped), None, places);
                path.pop();
            }
        }
        (Some(mut mapped), Some(mut original)) if mapped.is_list() && original.is_list() => {
            if let (Some(items), Some(originals)) = (mapped.list(), original.list())
                && items.len() == originals.len()
            {
                let pairs = items.iter().zip(originals.iter()).enumerate();
                for (index, (mapped, original)) in
                    pairs.filter(|(_, (mapped, original))| !mapped.equals(original))
                {
                    let path = path.iter().cloned().chain([Step::Index(index)]).collect();
                    places.push(Place {
                        path,
                        mapped: mapped.raw(),
                        original: original.raw(),
                    });
                }
            } else {
                places.push(Place {
                    path: path.clone(),
                    mapped: mapped.raw(),
                    original: original.raw(),
                });
            }
        }
        (Some(mapped), Some(original)) if mapped.equals(&original) => {}
        (mapped, original) => {
            let raw = |value: Option<Json<'_>>| value.and_then(|value| value.raw());
            places.push(Place {
                path: path.clone(),
                mapped: raw(mapped),
                original: raw(original),
            });
        }
    }
}

/// `None` if the search needed too many comparisons.
fn restore(object: &mut Json<'_>, place: &Place, looks: &mut usize) -> Option<()> {
    let Some((last, parents)) = place.path.split_last() else {
        return Some(());
    };
    let Some(parent) = parent(object, parents, looks) else {
        return Some(());
    };
    let mapped = place.mapped.as_ref().map(|raw| Compared::with(raw.get()));
    let original = place.original.as_ref().map(|raw| Json::owned(raw.get()));
    match last {
        Step::Key(key) => {
            let Some(map) = parent.object() else {
                return Some(());
            };
            *looks = looks.checked_sub(FIELD * map.len() + map.get(key).map_or(0, Json::size))?;
            let is_mapped = match (map.get(key), &mapped) {
                (None, None) => true,
                (Some(value), Some(mapped)) => mapped.is(value),
                _ => false,
            };
            match original.filter(|_| is_mapped) {
                Some(original) => map.insert(key, original),
                None if is_mapped => drop(map.remove(key)),
                None => {}
            }
        }
        Step::Index(index) => {
            let (Some(items), Some(mapped)) = (parent.list(), &mapped) else {
                return Some(());
            };
            *looks = looks.checked_sub(items.iter().map(|item| 1 + item.size()).sum())?;
            // At its old place, or at the place to which an edit of the list has moved it.
            let at =
                Some(*index).filter(|index| items.get(*index).is_some_and(|item| mapped.is(item)));
            let at = at.or_else(|| items.iter().position(|item| mapped.is(item)));
            if let (Some(item), Some(original)) = (at.and_then(|at| items.get_mut(at)), original) {
                *item = original;
            }
        }
    }
    Some(())
}

/// The object or list with the place in it. Missing labels and annotations are created; nothing
/// else is.
fn parent<'a, 'b>(
    object: &'b mut Json<'a>,
    path: &[Step],
    looks: &mut usize,
) -> Option<&'b mut Json<'a>> {
    let mut current = object;
    for (depth, step) in path.iter().enumerate() {
        current = match step {
            Step::Key(key) => {
                let fields = current.object()?;
                *looks = looks.saturating_sub(FIELD * fields.len());
                let makes = depth == 1 && path.first() == Some(&Step::Key("metadata".to_owned()));
                if makes {
                    fields.entry(key)?
                } else {
                    fields.get_mut(key)?
                }
            }
            Step::Index(index) => current.list()?.get_mut(*index)?,
        };
    }
    Some(current)
}

fn is_below(path: &[Step], root: &[&str]) -> bool {
    let mut steps = path.iter();
    root.iter()
        .all(|key| matches!(steps.next(), Some(Step::Key(step)) if step == key))
}

/// The object in a field, created if the field is missing. `None` if the field has another type.
pub(crate) fn object_at<'a, 'b>(
    object: &'b mut Object<'a>,
    field: &str,
) -> Option<&'b mut Object<'a>> {
    object.entry(field)?.object()
}

/// Sets `map[field][key]`, making `map[field]` if it is missing.
pub(crate) fn set_entry<'a>(map: &mut Object<'a>, field: &str, key: &str, value: Json<'a>) {
    if let Some(inner) = object_at(map, field) {
        inner.insert(key, value);
    }
}

/// Removes `map[field][key]`, and `map[field]` if nothing is left in it.
pub(crate) fn remove_entry<'a>(map: &mut Object<'a>, field: &str, key: &str) -> Option<Json<'a>> {
    let inner = map.get_mut(field)?.object()?;
    let removed = inner.remove(key)?;
    if inner.is_empty() {
        map.remove(field);
    }
    Some(removed)
}
