use super::*;

#[test]
fn times_within_a_second_are_counted_wherever_it_begins() {
    let at = |milliseconds: i64| Timestamp::from_millisecond(milliseconds).unwrap();
    for (times, most) in [
        (vec![], 0),
        (vec![0], 1),
        (vec![0, 1000, 2000], 1),
        (vec![0, 900, 1100, 1899, 1900], 3),
        (vec![5, 5], 2),
    ] {
        assert_eq!(
            most_in_a_second(&times.iter().copied().map(at).collect::<Vec<_>>()),
            most,
            "{times:?}"
        );
    }
}
