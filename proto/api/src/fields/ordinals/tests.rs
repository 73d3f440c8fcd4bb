use super::*;

#[test]
fn an_entry_is_an_ordinal_or_a_range_with_both_ends() {
    let text = |text: &str| reserved(&IntOrString::String(text.to_owned()));
    for (entry, expected) in [
        ("0", (0, 0)),
        ("2-5", (2, 5)),
        ("3-3", (3, 3)),
        ("0-2147483647", (0, i32::MAX)),
    ] {
        assert_eq!(text(entry), Ok(expected), "{entry}");
    }
    for entry in [
        "",
        "-",
        "-1",
        "a-b",
        "2-",
        "1-2-3",
        " 1",
        "+1",
        "2147483648",
        "5-2",
    ] {
        assert!(text(entry).is_err(), "{entry}");
    }
    assert_eq!(reserved(&IntOrString::Int(7)), Ok((7, 7)));
    assert!(reserved(&IntOrString::Int(-1)).is_err());
}
