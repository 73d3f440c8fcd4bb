use super::*;

#[test]
fn control_characters_become_escapes() {
    for (text, expected) in [
        ("web", "web"),
        ("größe ✔", "größe ✔"),
        ("\u{1b}[31mred", "\\u{1b}[31mred"),
        ("a\nb\tc\r", "a\\u{a}b\\u{9}c\\u{d}"),
        ("a\u{202e}b\u{9b}", "a\\u{202e}b\\u{9b}"),
    ] {
        assert_eq!(clean(text), expected);
    }
    assert_eq!(clean_lines("a\nb\r"), "a\nb\\u{d}");
}

#[test]
fn tables_look_like_those_of_kubectl() {
    let rows = [["web", "3"], ["a-longer-name", "10"]];
    let rows = rows.map(|row| row.map(str::to_owned).to_vec());
    let expected = "NAME            DESIRED\nweb             3\na-longer-name   10";
    assert_eq!(table(&["NAME", "DESIRED"], rows), expected);
}

#[test]
fn ages_are_those_of_kubectl() {
    for (seconds, expected) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 180, "5h3m"),
        (30 * 3600, "30h"),
        (3 * 86400 + 7200, "3d2h"),
        (80 * 86400, "80d"),
        (-5, "0s"),
    ] {
        assert_eq!(age(SignedDuration::from_secs(seconds)), expected);
    }
}
