//! Hashes of environment variables, on which the controller and a node's daemon must agree.

use std::collections::BTreeMap;

/// The hash of one variable's value: FNV-1a, 64 bits, in hex. A variable that a container does not have counts as empty,
/// as the kubelet sets one whose label or annotation the pod does not have.
pub fn of_value(value: &str) -> String {
    let hash = value.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:x}")
}

/// The hash of all variables that a container takes from labels and annotations, by name, as OpenKruise writes it into
/// `extractedEnvFromMetadataHash`: FNV-1a, 32 bits, over Go's notation of the bytes of their JSON.
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
mod tests {
    use super::*;

    #[test]
    fn values_differ_or_do_not() {
        assert_eq!(of_value(""), "cbf29ce484222325");
        assert_eq!(of_value("a"), "af63dc4c8601ec8c");
        assert_ne!(of_value("a"), of_value("b"));
    }

    #[test]
    fn the_json_is_that_of_go() {
        assert_eq!(variable("A", "x<y"), r#"{"name":"A","value":"x\u003cy"}"#);
        assert_eq!(variable("A", ""), r#"{"name":"A"}"#);
    }

    /// As a Go program counts them.
    #[test]
    fn the_hash_is_that_of_go() {
        assert_eq!(of_all(&BTreeMap::new()), 86_995_377);
        let odd = "x<y>&\u{2028}\"\n\u{1}é";
        assert_eq!(of_all(&[("B", odd), ("A", "")].into()), 1_638_876_649);
        assert_ne!(of_all(&[("A", "1")].into()), of_all(&[("A", "2")].into()));
    }
}
