use super::*;

#[test]
fn records_are_read_and_written_like_openkruise() {
    let text = r#"{"a":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"h","sidecarSetName":"a","sidecarList":["x","y"],"controllerRevision":"a-1"},"b":{"updateTimestamp":null,"hash":"i","sidecarSetName":"b","sidecarList":null,"later":1}}"#;
    let records = read(Some(text));
    assert_eq!(
        (
            records["a"].hash.as_str(),
            records["a"].controller_revision.as_str()
        ),
        ("h", "a-1")
    );
    assert_eq!(noted(Some(text), records["a"].clone()).0, text);
}

#[test]
fn the_old_form_is_a_hash() {
    let records = read(Some(r#"{"a":"h","b":{"hash":"i"}}"#));
    let a = Record {
        hash: "h".to_owned(),
        sidecar_set_name: "a".to_owned(),
        ..Record::default()
    };
    assert_eq!((&records["a"], records["b"].hash.as_str()), (&a, "i"));
    assert_eq!(
        (read(None), read(Some(""))),
        (Records::new(), Records::new())
    );
}

#[test]
fn malformed_records_are_ignored() {
    for text in ["h", "{", "[]", "null", r#"{"a":1,"b":{"hash":1}}"#] {
        assert_eq!(read(Some(text)), Records::new(), "{text}");
    }
    assert_eq!(
        read(Some(r#"{"a":1,"b":"h"}"#))
            .into_keys()
            .collect::<Vec<_>>(),
        ["b"]
    );
}

#[test]
fn writing_a_record_keeps_the_other_records() {
    let record = || Record::new("b", ("h", ""), &["x".to_owned()], "2026-01-02T03:04:05Z");
    let own = r#""b":{"updateTimestamp":"2026-01-02T03:04:05Z","hash":"h","sidecarSetName":"b","sidecarList":["x"]}"#;
    let other = r#""c":{"updateTimestamp":null,"hash":"i","sidecarSetName":"c","sidecarList":null,"later":1}"#;
    for (before, after, names) in [
        (None, format!("{{{own}}}"), "b"),
        (
            Some(format!("{{{other}}}")),
            format!("{{{own},{other}}}"),
            "b,c",
        ),
        (
            Some(format!(r#"{{"b":"old",{other}}}"#)),
            format!("{{{own},{other}}}"),
            "b,c",
        ),
        (
            Some(format!(r#"{{"a":1,"b":[],{other}}}"#)),
            format!(r#"{{"a":1,{own},{other}}}"#),
            "a,b,c",
        ),
        (
            Some(r#"{"a":{"hash":1}}"#.to_owned()),
            format!(r#"{{"a":{{"hash":1}},{own}}}"#),
            "a,b",
        ),
        (Some("[]".to_owned()), format!("{{{own}}}"), "b"),
        (Some("no JSON".to_owned()), format!("{{{own}}}"), "b"),
    ] {
        let (text, all) = noted(before.as_deref(), record());
        assert_eq!((text, all.join(",").as_str()), (after, names), "{before:?}");
    }
}

#[test]
fn lists_are_sorted_and_name_each_once() {
    assert_eq!(list(None, ["b", "a"]), "a,b");
    assert_eq!(list(Some("c,a,"), ["a", "b"]), "a,b,c");
    assert_eq!(list(Some(""), []), "");
}
