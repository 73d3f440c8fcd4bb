//! Lists that a patch merges element by element.

use std::collections::{HashMap, HashSet};
use std::mem::discriminant;

use serde_json::{Map, Value};

use super::order::{identities, identity, interleaved};
use super::rules::{DIRECTIVE, InvalidPatch, named, shown, unknown_directive};

/// Merges a patch into an object that a field of this name holds.
pub(super) type MergeObject =
    fn(&str, &mut Map<String, Value>, Map<String, Value>) -> Result<(), InvalidPatch>;

/// The list of a field with the patch merged into it, by the key of its elements.
pub(super) fn merge(
    field: &str,
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: Option<&str>,
    merge_object: MergeObject,
) -> Result<Vec<Value>, InvalidPatch> {
    if patch.is_empty() {
        return Ok(original);
    }
    check_elements(&original, &patch)?;
    let Some(key) = key else {
        let mut seen = HashSet::new();
        let all = original
            .iter()
            .chain(&patch)
            .filter(|item| seen.insert(identity(item, None)));
        let all = all.cloned().collect();
        return Ok(interleaved(
            all,
            &identities(&patch, None),
            &identities(&original, None),
            None,
        ));
    };
    if !patch[0].is_object() {
        return Err(InvalidPatch::new(format!(
            "holds {}, but must hold objects with {key:?}",
            named(&patch[0])
        )));
    }
    let (patch, replaces) = without_special(&mut original, patch, key)?;
    if replaces {
        let list: Vec<Value> = patch.into_iter().map(|(_, element)| element).collect();
        let order = identities(&list, Some(key));
        return Ok(interleaved(list, &[], &order, Some(key)));
    }
    let server_order = identities(&original, Some(key));
    let order: Vec<String> = patch
        .iter()
        .map(|(_, element)| identity(element, Some(key)))
        .collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, element) in original.iter().enumerate() {
        places.entry(identity(element, Some(key))).or_insert(place);
    }
    for ((at, element), identity) in patch.into_iter().zip(&order) {
        match places
            .get(identity)
            .and_then(|place| original.get_mut(*place))
        {
            Some(Value::Object(old)) => {
                let Value::Object(element) = element else {
                    continue;
                };
                merge_object(field, old, element).map_err(|error| error.at(at))?;
            }
            _ => {
                places.insert(identity.clone(), original.len());
                original.push(element);
            }
        }
    }
    Ok(interleaved(original, &order, &server_order, Some(key)))
}

/// Removes the texts of `deleted` from the list.
pub(super) fn delete(list: &mut Vec<Value>, deleted: &[Value]) -> Result<(), InvalidPatch> {
    check_elements(list, deleted)?;
    if deleted.iter().any(Value::is_object) {
        return Err(InvalidPatch::new(
            "holds objects, but must hold texts; delete an object with \"$patch\": \"delete\"",
        ));
    }
    let deleted: HashSet<String> = deleted.iter().map(|item| identity(item, None)).collect();
    list.retain(|item| !deleted.contains(&identity(item, None)));
    Ok(())
}

/// Elements of a patch, each with its place in the patch.
type Elements = Vec<(usize, Value)>;

/// The patch without elements that hold `$patch`, and whether they replace the list. Those that
/// delete an element of the original have done so.
fn without_special(
    original: &mut Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Elements, bool), InvalidPatch> {
    let mut replaces = false;
    let mut deleted = HashSet::new();
    let mut kept = Vec::with_capacity(patch.len());
    for (at, element) in patch.into_iter().enumerate() {
        let directive = element.get(DIRECTIVE);
        if directive.and_then(Value::as_str) == Some("replace") {
            replaces = true;
            continue;
        }
        let has_key = element.get(key).is_some();
        match directive {
            None if has_key => kept.push((at, element)),
            Some(directive) if directive != "delete" => {
                return Err(unknown_directive(directive).at(at));
            }
            _ if !has_key => return Err(no_key(key).at(at)),
            _ => {
                deleted.insert(identity(&element, Some(key)));
            }
        }
    }
    if !deleted.is_empty() {
        original.retain(|element| !deleted.contains(&identity(element, Some(key))));
    }
    Ok((kept, replaces))
}

/// Lists of one type, which is no list.
pub(super) fn check_elements(original: &[Value], patch: &[Value]) -> Result<(), InvalidPatch> {
    let Some(first) = original.iter().chain(patch).next() else {
        return Ok(());
    };
    for (at, element) in patch.iter().enumerate() {
        if element.is_array() || element.is_null() {
            return Err(InvalidPatch::new(format!("is {}; remove it", named(element))).at(at));
        }
        if discriminant(element) != discriminant(first) {
            let problem = format!(
                "is {}, but the other elements are not; remove it",
                named(element)
            );
            return Err(InvalidPatch::new(problem).at(at));
        }
    }
    Ok(())
}

pub(super) fn no_key(key: &str) -> InvalidPatch {
    InvalidPatch::new(format!(
        "has no {key:?}, by which its list is merged; add {:?}",
        shown(key)
    ))
}
