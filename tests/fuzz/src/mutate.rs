//! Changes an input into others: most are still JSON, so that they pass the parser and reach the
//! code behind it.

use fastrand::Rng;
use serde_json::{Map, Value};

/// Numbers at which arithmetic overflows.
const NUMBERS: [i64; 14] = [
    0,
    1,
    -1,
    2,
    100,
    255,
    65_536,
    i32::MAX as i64,
    i32::MIN as i64,
    i32::MAX as i64 + 1,
    i64::MAX,
    i64::MIN,
    253_402_300_799,
    -377_705_023_201,
];
/// Texts with a meaning to one of the parsers, or just outside of it.
const TEXTS: [&str; 52] = [
    "",
    " ",
    "\0",
    "ä",
    "/",
    "..",
    "-",
    "@",
    ":",
    "%",
    "*",
    "null",
    "true",
    "0",
    "-1",
    "+5",
    "007",
    "1e-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999999999999999999999",
    "0.0000000000000000001",
    "1.5Gi",
    "100m",
    "25%",
    "0.0001%",
    "100%",
    "5m",
    "2562047788015215h",
    "-1s",
    "1970-01-01T00:00:00Z",
    "9999-12-30T22:00:00.999999999Z",
    "-009999-01-02T01:59:59Z",
    "2026-01-01T00:00:00+00:00",
    "True",
    "False",
    "Ordered",
    "Normal",
    "Updating",
    "PreparingDelete",
    "PreparingUpdate",
    "metadata.labels['a']",
    "metadata.annotations['']",
    "nginx:latest",
    "registry:5000/a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "web-22",
    "10.0.0.0/8",
    "::ffff:10.0.0.1/128",
    "255.255.255.255/32",
    "2001:db8::/64",
    "a\r\neth0",
];

/// An input that differs from `data`: by a few values if it is JSON, otherwise by a few bytes.
pub fn mutated(data: &[u8], random: &mut Rng) -> Vec<u8> {
    match serde_json::from_slice::<Value>(data) {
        Ok(mut value) => {
            for _ in 0..random.usize(1..=4) {
                mutate(&mut value, random);
            }
            value.to_string().into_bytes()
        }
        Err(_) => {
            let mut bytes = data.to_vec();
            for _ in 0..random.usize(1..=4) {
                mutate_bytes(&mut bytes, random);
            }
            bytes
        }
    }
}

/// Changes one value somewhere below.
fn mutate(root: &mut Value, random: &mut Rng) {
    let count = nodes(root);
    let copied = nth(root, &mut random.usize(0..count)).map(|value| value.clone());
    let Some(value) = nth(root, &mut random.usize(0..count)) else {
        return;
    };
    match random.u8(0..8) {
        0 => *value = interesting(random),
        // A part of the document replaces another: this grows the document, so it has a bound.
        1 if count < 4000 => *value = copied.unwrap_or_default(),
        _ => change(value, random),
    }
}

fn change(value: &mut Value, random: &mut Rng) {
    match value {
        Value::Object(map) => change_map(map, random),
        Value::Array(list) => change_list(list, random),
        Value::String(text) => change_text(text, random),
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or_default();
            let near =
                [1, -1, 1000, number.saturating_neg(), number].map(|by| number.saturating_add(by));
            *value = random.choice(near).unwrap_or_default().into();
        }
        Value::Bool(_) | Value::Null => *value = interesting(random),
    }
}

fn change_map(map: &mut Map<String, Value>, random: &mut Rng) {
    let keys: Vec<String> = map.keys().cloned().collect();
    let Some(key) = random.choice(keys) else {
        map.insert(text(random), interesting(random));
        return;
    };
    match random.u8(0..4) {
        0 => _ = map.remove(&key),
        1 => _ = map.insert(key, interesting(random)),
        2 => _ = map.insert(text(random), interesting(random)),
        _ => {
            let value = map.remove(&key).unwrap_or_default();
            map.insert(text(random), value);
        }
    }
}

fn change_list(list: &mut Vec<Value>, random: &mut Rng) {
    if list.is_empty() {
        return list.push(interesting(random));
    }
    let at = random.usize(0..list.len());
    match random.u8(0..4) {
        0 => _ = list.remove(at),
        1 => list.insert(at, interesting(random)),
        2 => list.swap(at, 0),
        _ => {
            let item = list.get(at).cloned().unwrap_or_default();
            list.extend(std::iter::repeat_n(item, random.usize(1..4)));
        }
    }
}

/// A text that is JSON, as in annotations, is mostly changed as JSON.
fn change_text(held: &mut String, random: &mut Rng) {
    if random.u8(0..4) > 0
        && let Ok(mut inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(held)
    {
        mutate(&mut inner, random);
        *held = inner.to_string();
        return;
    }
    match random.u8(0..3) {
        0 => *held = text(random),
        1 => {
            let cut = (0..=random.usize(0..=held.len()))
                .rev()
                .find(|at| held.is_char_boundary(*at))
                .unwrap_or(0);
            held.insert_str(cut, &text(random));
        }
        _ => {
            let mut bytes = std::mem::take(held).into_bytes();
            mutate_bytes(&mut bytes, random);
            *held = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

fn mutate_bytes(bytes: &mut Vec<u8>, random: &mut Rng) {
    if bytes.is_empty() {
        bytes.extend(text(random).bytes());
        return;
    }
    let (at, other) = (random.usize(0..bytes.len()), random.usize(0..bytes.len()));
    let piece = at.min(other)..at.max(other);
    match random.u8(0..6) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.u8(0..8);
            }
        }
        1 => _ = bytes.drain(piece),
        2 if bytes.len() < 4096 => {
            let copy = bytes.get(piece).unwrap_or_default().to_vec();
            bytes.splice(at..at, copy);
        }
        3 => bytes.insert(at, random.u8(..)),
        4 => _ = bytes.splice(at..at, text(random).into_bytes()),
        _ => _ = bytes.splice(piece, text(random).into_bytes()),
    }
}

fn text(random: &mut Rng) -> String {
    match random.u8(0..16) {
        0 => "a".repeat(random.usize(60..300)),
        1 => random.choice(NUMBERS).unwrap_or_default().to_string(),
        _ => random.choice(TEXTS).unwrap_or_default().to_owned(),
    }
}

fn interesting(random: &mut Rng) -> Value {
    match random.u8(0..9) {
        0 => Value::Null,
        1 => Value::Bool(random.bool()),
        2 => Value::Array(Vec::new()),
        3 => Value::Object(Map::new()),
        4 => Value::from(0.5),
        5 | 6 => Value::from(random.choice(NUMBERS).unwrap_or_default()),
        _ => Value::from(text(random)),
    }
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(nodes).sum(),
        Value::Array(list) => list.iter().map(nodes).sum(),
        _ => 0,
    }
}

/// The n-th value of all, counted from the top.
fn nth<'a>(value: &'a mut Value, n: &mut usize) -> Option<&'a mut Value> {
    if *n == 0 {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Object(map) => map.values_mut().find_map(|value| nth(value, n)),
        Value::Array(list) => list.iter_mut().find_map(|value| nth(value, n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
