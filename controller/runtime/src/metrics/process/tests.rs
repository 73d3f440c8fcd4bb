use super::*;

#[test]
fn stat_is_read_despite_bracket_and_spaces_in_name() {
    let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 0 0 20 0 3 0 12345 4096 10";
    assert_eq!(cpu_seconds(stat), Some(4.0));
    assert_eq!(field(stat, 22), Some(12345.0));
    assert_eq!(virtual_bytes(stat), Some(4096.0));
    assert_eq!(cpu_seconds(""), None);
}
