//! Hashes of environment variables, on which the controller and a node's daemon must agree.

use std::collections::BTreeMap;

/// The hash of one variable's value: FNV-1a, 64 bits, in hex. A missing variable counts as empty,
/// because the kubelet sets an empty value for a missing label or annotation.
pub fn of_value(value: &str) -> String {
    let hash = value.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:x}")
}

/// The hash of all variables of a container that read labels and annotations, by name. OpenKruise
/// writes it into `extractedEnvFromMetadataHash`: FNV-1a, 32 bits, over Go's notation of the bytes
/// of their JSON.
pub fn of_all<'a>(variables: &BTreeMap<&'a str, &'a str>) -> u32 {
    let list: Vec<String> = variables
        .iter()
        .map(|(name, value)| variable(name, value))
        .collect();
    let json = if list.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", list.join(","))
    };
    let bytes: Vec<String> = json.bytes().map(|byte| byte.to_string()).collect();
    let text = format!("([]uint8)[{}]", bytes.join(" "));
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn variable(name: &str, value: &str) -> String {
    let value = if value.is_empty() {
        String::new()
    } else {
        format!(r#","value":{}"#, quoted(value))
    };
    format!(r#"{{"name":{}{value}}}"#, quoted(name))
}

/// A JSON string as Go writes it: with what HTML knows escaped.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let escaped = json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    escaped
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests;
