//! Objects and memories that a malicious user made.

use serde_json::{Value, json};

use super::super::json::Json;
use super::{ALPHA, BETA, alpha, beta, memory, to};
use crate::kinds::convert::convert;
use crate::names::annotation::CONVERSION;

/// A CloneSet of v1beta1 with this text as a field of its template.
fn with_template(field: &str) -> String {
    format!(
        r#"{{"apiVersion":"{BETA}","kind":"CloneSet","metadata":{{"name":"a"}},"spec":{{"template":{{"odd":{field}}},"scaleStrategy":{{"enablePVCReuse":false,"excludePreparingDelete":false}},"updateStrategy":{{"type":"RollingUpdate","rollingUpdate":{{"podUpdatePolicy":"ReCreate"}}}}}},"status":{{"odd":{field}}}}}"#
    )
}

#[test]
fn an_object_of_any_depth_is_converted_there_and_back() {
    for levels in [200, 5_000, 100_000] {
        let object = with_template(&format!(
            "{}1{}",
            r#"{"a":["#.repeat(levels),
            "]}".repeat(levels)
        ));
        let there = convert(&object, ALPHA).unwrap();
        assert!(there.contains(ALPHA) && !there.contains(CONVERSION));
        assert_eq!(convert(&there, BETA).unwrap(), object);
    }
}

#[test]
fn unconverted_parts_keep_their_text() {
    let odd = r#"[ 1.0e5, 1e400,12345678901234567890123,"é\/", {"b":1, "a":2} ]"#;
    let there = convert(&with_template(odd), ALPHA).unwrap();
    assert_eq!(there.matches(odd).count(), 2, "{there}");
}

fn forged(original: &Value, mapped: &Value) -> Value {
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxSurge"];
    let mut object = alpha();
    let memory = json!({"version": "v1beta1", "places": [{"path": path, "mapped": mapped, "original": original}]});
    object["metadata"]["annotations"] = json!({CONVERSION: memory.to_string()});
    object
}

#[test]
fn memory_that_breaks_the_object_is_dropped() {
    assert_eq!(to(BETA, &forged(&json!({"a": 1}), &json!(0))), beta());
    let with_surge = to(BETA, &forged(&json!(3), &json!(0)));
    assert_eq!(
        with_surge["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"], 3,
        "what can be read is restored"
    );
}

#[test]
fn memory_longer_than_annotations_is_dropped() {
    let long = json!("9".repeat(256 << 10));
    assert_eq!(to(BETA, &forged(&long, &json!(0))), beta());
}

#[test]
fn memory_with_too_many_places_is_read_in_part() {
    let keys: Vec<String> = (0..40_000).map(|n| format!(r#""k{n}":0"#)).collect();
    let places: Vec<Value> = (0..4_000)
        .map(|n| json!({"path": ["spec", "scaleStrategy", format!("x{n}")], "original": n}))
        .collect();
    let text = json!({"version": "v1beta1", "places": places}).to_string();
    assert!(text.len() < 256 << 10);
    let object = format!(
        r#"{{"apiVersion":"{ALPHA}","kind":"CloneSet","metadata":{{"annotations":{{"{CONVERSION}":{}}}}},"spec":{{"scaleStrategy":{{{}}}}}}}"#,
        Value::from(text),
        keys.join(",")
    );
    let converted: Value = serde_json::from_str(&convert(&object, BETA).unwrap()).unwrap();
    let scale = converted["spec"]["scaleStrategy"].as_object().unwrap();
    assert!(
        (40_000..40_100).contains(&scale.len()),
        "restored {} places",
        scale.len() - 40_000
    );
    assert!(memory(&converted).is_some());
}

#[test]
fn comparing_a_place_with_many_items_is_cheap() {
    // Sixty kilobytes to compare, and as many items as fit. Each was once compared with all of
    // them.
    let mapped = format!("[{}0]", "0,".repeat(30_000));
    let place = format!(
        r#"{{"path":["spec","scaleStrategy","podsToDelete",0],"mapped":{mapped},"original":1}}"#
    );
    let text = format!(r#"{{"version":"v1beta1","places":[{place}]}}"#);
    let items = "[1],".repeat(200_000);
    let object = format!(
        r#"{{"apiVersion":"{ALPHA}","kind":"CloneSet","metadata":{{"annotations":{{"{CONVERSION}":{}}}}},"spec":{{"scaleStrategy":{{"podsToDelete":[{items}[1]]}}}}}}"#,
        Value::from(text)
    );
    let converted: Value = serde_json::from_str(&convert(&object, BETA).unwrap()).unwrap();
    assert_eq!(
        converted["spec"]["scaleStrategy"]["podsToDelete"]
            .as_array()
            .map(Vec::len),
        Some(200_001)
    );
}

#[test]
fn repeated_field_is_removed_completely_or_kept() {
    let without_mode = |times: usize| {
        let secret = format!(
            r#"{{{}"name":"robot","namespace":"team"}}"#,
            r#""mode":0,"#.repeat(times)
        );
        let mut value = Json::of(&secret);
        let removed = value
            .object()
            .and_then(|secret| secret.remove("mode"))
            .map(|mode| mode.to_string());
        (
            removed,
            value.to_string() == r#"{"name":"robot","namespace":"team"}"#,
            value.to_string() == secret,
        )
    };
    assert_eq!(without_mode(16_000), (Some("0".to_owned()), true, false));
    assert_eq!(
        without_mode(400_000),
        (None, false, true),
        "what has too many entries stays the text that it is"
    );
}
