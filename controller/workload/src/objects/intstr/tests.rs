use super::*;

fn text(value: &str) -> IntOrString {
    IntOrString::String(value.to_owned())
}

#[test]
fn numbers_and_percentages() {
    let table = [
        (IntOrString::Int(3), 10, Round::Up, Ok(3)),
        (text("20%"), 3, Round::Up, Ok(1)),
        (text("20%"), 3, Round::Down, Ok(0)),
        (text("20%"), 3, Round::HalfUp, Ok(1)),
        (text("20%"), 2, Round::HalfUp, Ok(0)),
        (text("50%"), 1, Round::HalfUp, Ok(1)),
        (text("100%"), 7, Round::Down, Ok(7)),
        (text("0%"), 7, Round::Up, Ok(0)),
        (text("12.5%"), 1000, Round::Down, Ok(125)),
        (text("0.05%"), 2001, Round::Up, Ok(2)),
        (text("0.05%"), 2001, Round::Down, Ok(1)),
        (text("33.3333%"), 3, Round::Up, Ok(1)),
        (text("999.9999%"), 1000, Round::Down, Ok(9999)),
    ];
    for (value, total, round, expected) in table {
        assert_eq!(
            resolve(&value, total, round),
            expected,
            "{value:?} of {total}"
        );
    }
    for bad in [
        IntOrString::Int(-1),
        text("20"),
        text("%"),
        text("-5%"),
        text("a%"),
        text("99999%"),
        text("1000%"),
        text("0050%"),
        text("33.33333%"),
        text("1.%"),
        text(".5%"),
        text("1.2.3%"),
    ] {
        assert!(resolve(&bad, 10, Round::Up).is_err(), "{bad:?}");
    }
}

#[test]
fn a_partition_under_100_percent_lets_one_pod_go() {
    let table = [
        (None, 5, 0),
        (Some(text("99%")), 5, 4),
        (Some(text("99%")), 1, 1),
        (Some(text("100%")), 5, 5),
        (Some(text("1%")), 5, 1),
        (Some(text("99.9%")), 5, 4),
        (Some(text("100.0%")), 5, 5),
        (Some(IntOrString::Int(9)), 5, 5),
    ];
    for (value, replicas, expected) in table {
        assert_eq!(
            partition(value.as_ref(), replicas),
            Ok(expected),
            "{value:?} of {replicas}"
        );
        assert_eq!(keeps_any(value.as_ref()), Ok(expected > 0), "{value:?}");
    }
}
