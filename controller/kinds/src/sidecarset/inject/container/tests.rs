use super::*;

#[test]
fn variables_are_found_in_texts() {
    for (text, expected) in [
        ("", &[][..]),
        ("logs", &[]),
        ("$(A)", &["A"]),
        ("foo/$(ODD_NAME)/$(POD_NAME)", &["ODD_NAME", "POD_NAME"]),
        ("$$(A)/$(B)", &["B"]),
        ("$$$(A)", &["A"]),
        ("$(A", &[]),
        ("$(A)$(B", &["A"]),
        ("$(A$(B)$$(C$(D)", &["A$(B", "D"]),
        ("$A/$", &[]),
    ] {
        assert_eq!(variables_in(text), expected, "{text}");
    }
}

#[test]
fn cleaned_path_begins_those_below_it() {
    for (path, expected) in [
        ("/etc/agent", "/etc/agent/"),
        ("/etc//./agent/", "/etc/agent/"),
        ("etc/x/../agent", "/etc/agent/"),
        ("/../..", "/"),
        ("", "/"),
    ] {
        assert_eq!(cleaned(path), expected, "{path}");
    }
}
