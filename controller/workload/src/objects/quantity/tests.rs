use serde_json::json;

use super::*;

#[test]
fn quantities_are_compared_by_their_value() {
    for (one, other, expected) in [
        ("1Gi", "1024Mi", true),
        ("1024Mi", "1Gi", true),
        ("1G", "1Gi", false),
        ("2Gi", "1Gi", true),
        ("500m", "0.5", true),
        ("1", "1e3", false),
        ("much", "1", false),
        ("1", "much", false),
        ("8Ei", "1", true),
    ] {
        assert_eq!(is_at_least(one, other), expected, "{one} {other}");
    }
}

#[test]
fn amounts_are_whole_thousandths() {
    let table = [
        (json!("0.0001"), "1m"),
        (json!("1.5m"), "2m"),
        (json!("1e-4"), "1e-3"),
        (json!("0.0001Ki"), "103m"),
        (json!("1.0000000001Gi"), "1073741824108m"),
        (json!("1.5Gi"), "1536Mi"),
        (json!(0.25), "250m"),
        (json!("much"), "much"),
    ];
    for (value, expected) in table {
        assert_eq!(rounded(&value), json!(expected), "{value}");
    }
    let counted = [
        ("1500u", Some(2)),
        ("1Gi", Some(1_073_741_824_000)),
        ("8Ei", Some((8 << 60) * 1000)),
    ];
    for (text, expected) in counted.into_iter().chain([("much", None)]) {
        assert_eq!(thousandths(text), expected, "{text}");
    }
}

#[test]
fn quantities_are_written_in_one_way() {
    let table = [
        (json!("1000m"), "1"),
        (json!("0.5"), "500m"),
        (json!(".5"), "500m"),
        (json!(0.5), "500m"),
        (json!(2), "2"),
        (json!("1500m"), "1500m"),
        (json!("0.1"), "100m"),
        (json!("100"), "100"),
        (json!("1000"), "1k"),
        (json!("100000"), "100k"),
        (json!("1000000"), "1M"),
        (json!("0"), "0"),
        (json!("0m"), "0"),
        (json!("0Gi"), "0"),
        (json!("1024Mi"), "1Gi"),
        (json!("1.5Gi"), "1536Mi"),
        (json!("100Mi"), "100Mi"),
        (json!("1024"), "1024"),
        (json!("0.5Ki"), "512"),
        (json!("1Ki"), "1Ki"),
        (json!("1000Ki"), "1000Ki"),
        (json!("1024Pi"), "1Ei"),
        (json!("1024Ei"), "1024Ei"),
        (json!("1.0000000001Gi"), "1073741824107374183n"),
        (json!("1.5e3"), "1500"),
        (json!("0.0000000001"), "1n"),
        (json!("-0.0000000001"), "-1n"),
        (json!("-1500m"), "-1500m"),
        (json!("128974848"), "128974848"),
        (json!("129e6"), "129e6"),
        (json!("1e3"), "1e3"),
        (
            json!("12345678901234567890123456789"),
            "12345678901234567890123456789",
        ),
        (json!("1e19"), "1e19"),
        (json!("1e-2147483648"), "1e-2147483648"),
        (json!("1.00000000000000000000"), "1.00000000000000000000"),
        (json!("much"), "much"),
    ];
    for (value, expected) in table {
        assert_eq!(canonical(&value), json!(expected), "{value}");
        assert_eq!(
            canonical(&json!(expected)),
            json!(expected),
            "{value}: it stays as it is"
        );
    }
}
