//! `$setElementOrder`: the order that a patch wants of a list.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::list::{MergeObject, check_elements, merge, no_key};
use super::order::{identities, identity, interleaved};
use super::rules::{
    InvalidPatch, ListStrategy, SET_ELEMENT_ORDER, has_directive, named, shown, strategy, target,
    without_directives,
};

/// Merges and orders each list that `$setElementOrder` names, and takes both out of the patch.
pub(super) fn set_element_order(
    holder: &str,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    merge_object: MergeObject,
) -> Result<(), InvalidPatch> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let field = target(&directive, SET_ELEMENT_ORDER)?;
        let Value::Array(order) = order else {
            let problem = format!("is {}, but must be a list", named(&order));
            return Err(InvalidPatch::new(problem).within(&directive));
        };
        let changed = match patch.remove(field) {
            None => None,
            Some(Value::Array(changed)) => Some(changed),
            Some(other) => {
                let problem = format!(
                    "is {}, but must be a list as {SET_ELEMENT_ORDER} names it",
                    named(&other)
                );
                return Err(InvalidPatch::new(problem).within(field));
            }
        };
        let old = match original.remove(field) {
            Some(Value::Array(old)) => old,
            _ => Vec::new(),
        };
        if old.is_empty() && changed.is_none() {
            continue;
        }
        let key = match strategy(holder, field) {
            ListStrategy::Merge(key) => key,
            ListStrategy::Replace => None,
        };
        let changed = changed.unwrap_or_default();
        check_order(&changed, &order, key).map_err(|error| error.within(&directive))?;
        let list = ordered(holder, field, (old, changed), &order, key, merge_object)
            .map_err(|error| error.within(field))?;
        original.insert(field.to_owned(), Value::Array(list));
    }
    Ok(())
}

fn ordered(
    holder: &str,
    field: &str,
    (old, changed): (Vec<Value>, Vec<Value>),
    order: &[Value],
    key: Option<&str>,
    merge_object: MergeObject,
) -> Result<Vec<Value>, InvalidPatch> {
    check_elements(&old, &changed)?;
    let mut server_order = identities(&old, key);
    let merged = if old.is_empty() {
        let added: Vec<Value> = changed.into_iter().filter_map(without_directives).collect();
        if let Some((at, _)) = added
            .iter()
            .enumerate()
            .find(|(_, element)| key.is_some_and(|key| element.get(key).is_none()))
        {
            return Err(no_key(key.unwrap_or_default()).at(at));
        }
        added
    } else if changed.is_empty() {
        old
    } else if let ListStrategy::Merge(key) = strategy(holder, field) {
        server_order = reused(server_order, &changed, key);
        merge(field, old, changed, key, merge_object)?
    } else {
        changed
    };
    Ok(interleaved(
        merged,
        &identities(order, key),
        &server_order,
        key,
    ))
}

/// The original's order as the apiserver sees it after the merge: added elements take the places of
/// deleted ones, because it merges into the memory of the original list.
fn reused(server_order: Vec<String>, changed: &[Value], key: Option<&str>) -> Vec<String> {
    let length = server_order.len();
    let deleted = changed
        .iter()
        .filter(|element| has_directive(element))
        .map(|element| identity(element, key));
    let deleted: HashSet<String> = deleted.collect();
    let mut order: Vec<String> = server_order
        .into_iter()
        .filter(|identity| !deleted.contains(identity))
        .collect();
    let known: HashSet<String> = order.iter().cloned().collect();
    order.extend(
        identities(changed, key)
            .into_iter()
            .filter(|identity| !known.contains(identity)),
    );
    order.truncate(length);
    order
}

/// Checks that the elements of the patch are in the order list, in the same order.
fn check_order(changed: &[Value], order: &[Value], key: Option<&str>) -> Result<(), InvalidPatch> {
    for (at, element) in order.iter().enumerate() {
        let is_right = key.map_or(!element.is_object() && !element.is_array(), |key| {
            element.get(key).is_some()
        });
        if !is_right {
            return Err(key
                .map_or_else(|| InvalidPatch::new("is no text"), no_key)
                .at(at));
        }
    }
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter().map(|element| identity(element, key));
    for element in changed.iter().filter(|element| !has_directive(element)) {
        let wanted = identity(element, key);
        if !order.any(|identity| identity == wanted) {
            let wanted = shown(&wanted);
            let problem = format!(
                "has no {wanted} where the patch's list has it; list the elements of both in one order"
            );
            return Err(InvalidPatch::new(problem));
        }
    }
    Ok(())
}
