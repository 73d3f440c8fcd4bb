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

#[test]
fn cut_counts_columns() {
    for (text, width, expected) in [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("abc", 0, ""),
        ("abc", 1, "…"),
    ] {
        assert_eq!(cut(text, width), expected, "{text} {width}");
    }
}

#[test]
fn wrap_breaks_at_blanks_and_in_long_words() {
    assert_eq!(wrap("one two three", 8), ["one two", "three"]);
    assert_eq!(wrap("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
    assert_eq!(wrap("", 4), [""]);
    for width in 1..12 {
        for line in wrap("a few words, and 日本語の長い言葉 in between", width) {
            assert!(columns(&line) <= width.max(2), "{line}");
        }
    }
}

#[test]
fn lines_fit_the_width_behind_their_indentation() {
    for (text, width, expected) in [
        ("one two three four five", None, "one two three four five"),
        (
            "one two three four five",
            Some(20),
            "one two three four\n  five",
        ),
        (
            "  web-a: waits for b and c",
            Some(20),
            "  web-a: waits for\n    b and c",
        ),
        (
            "Now:\n  nothing to do at all",
            Some(20),
            "Now:\n  nothing to do at\n    all",
        ),
        ("short", Some(20), "short"),
        (
            "one two three four five",
            Some(5),
            "one two three four five",
        ),
    ] {
        assert_eq!(fitted(text, width), expected, "{width:?}");
    }
}

#[test]
fn json_escapes_what_steers_a_terminal() {
    let value = serde_json::json!({"na\u{202e}me": "a\u{9b}31m\u{7f}\u{1b}\n", "größe": "✔"});
    let json = json(&value).unwrap();
    let expected = "{\n  \"größe\": \"✔\",\n  \"na\\u202eme\": \"a\\u009b31m\\u007f\\u001b\\n\"\n}";
    assert_eq!(json, expected);
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read, value, "programs read the same text");
}
