//! The order of a merged list's elements.

use std::collections::HashMap;

use serde_json::Value;

use super::rules::has_directive;

/// The identity of an element: the value of its key, or the whole text.
pub(super) fn identity(element: &Value, key: Option<&str>) -> String {
    key.map_or_else(
        || element.to_string(),
        |key| element.get(key).map(Value::to_string).unwrap_or_default(),
    )
}

/// The elements' identities, in their order. Elements with a directive count too.
pub(super) fn identities(list: &[Value], key: Option<&str>) -> Vec<String> {
    list.iter()
        .filter(|element| !has_directive(element))
        .map(|element| identity(element, key))
        .collect()
}

/// The list with elements of `order` in this order. The others keep the order that they have on
/// the server, and go before the first element that follows them there.
pub(super) fn interleaved(
    list: Vec<Value>,
    order: &[String],
    server_order: &[String],
    key: Option<&str>,
) -> Vec<Value> {
    let (order, server_order) = (places(order), places(server_order));
    let mut of_patch = Vec::new();
    let mut of_server = Vec::new();
    for element in list {
        let identity = identity(&element, key);
        let on_server = server_order.get(identity.as_str()).copied();
        match order.get(identity.as_str()) {
            Some(place) => of_patch.push((*place, on_server, element)),
            None => of_server.push((on_server.unwrap_or(usize::MAX), on_server, element)),
        }
    }
    of_patch.sort_by_key(|(place, ..)| *place);
    of_server.sort_by_key(|(place, ..)| *place);
    let mut result = Vec::with_capacity(of_patch.len() + of_server.len());
    let (mut left, mut right) = (
        of_server.into_iter().peekable(),
        of_patch.into_iter().peekable(),
    );
    while let (Some((_, own, _)), Some((_, other, _))) = (left.peek(), right.peek()) {
        let is_first = own.zip(*other).is_some_and(|(own, other)| own < other);
        let next = if is_first { left.next() } else { right.next() };
        result.extend(next.map(|(.., element)| element));
    }
    result.extend(left.chain(right).map(|(.., element)| element));
    result
}

/// The first place of each identity.
fn places(order: &[String]) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for (place, identity) in order.iter().enumerate() {
        places.entry(identity.as_str()).or_insert(place);
    }
    places
}
