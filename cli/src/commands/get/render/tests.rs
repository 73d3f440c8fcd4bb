use super::{columns, cut, wrap};

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
