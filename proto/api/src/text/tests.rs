use serde_json::json;

use super::*;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Holder {
    some_text: JsonText,
    other: i32,
}

#[test]
fn text_is_kept_and_written_as_it_was() {
    let text = r#"{"someText":{"z": [1.50, "\u003c"],"a":{}},"other":7}"#;
    let holder: Holder = serde_json::from_str(text).unwrap();
    assert_eq!(
        holder.some_text.as_str(),
        r#"{"z": [1.50, "\u003c"],"a":{}}"#
    );
    assert_eq!(serde_json::to_string(&holder).unwrap(), text);
    assert_eq!(holder.some_text.value(), json!({"z": [1.5, "<"], "a": {}}));
    assert_eq!(
        serde_json::from_str::<Holder>("{}")
            .unwrap()
            .some_text
            .value(),
        Value::Null
    );
}

#[test]
fn a_tree_is_read_as_its_text_and_written_as_a_tree() {
    let tree = json!({"someText": {"b": [null, true], "a": "x"}, "other": 7});
    for holder in [
        Holder::deserialize(&tree).unwrap(),
        serde_json::from_value(tree.clone()).unwrap(),
    ] {
        assert_eq!(holder.some_text.as_str(), r#"{"a":"x","b":[null,true]}"#);
        assert_eq!(serde_json::to_value(&holder).unwrap(), tree);
    }
}

#[test]
fn text_without_a_valid_tree_is_refused() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for odd in [
        "1e999",
        r#"{"a":"\ud800"}"#,
        r#"["\udc00"]"#,
        "{\"\\ud800\":1}",
        &deep,
    ] {
        let text = format!(r#"{{"someText":{odd}}}"#);
        assert!(serde_json::from_str::<Value>(&text).is_err(), "{odd}");
        assert!(serde_json::from_str::<Holder>(&text).is_err(), "{odd}");
    }
    assert!(
        serde_json::from_str::<Holder>(r#"{"someText":[1,-2,3.5,null,true,"\ud83d\ude00"]}"#)
            .is_ok()
    );
}
