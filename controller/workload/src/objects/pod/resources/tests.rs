use serde_json::json;

use super::*;

#[test]
fn quantities_are_numbers() {
    let table = [
        ("1", Some(1000)),
        ("1.5", Some(1500)),
        ("250m", Some(250)),
        ("0.0001", Some(1)),
        ("100n", Some(1)),
        ("1500u", Some(2)),
        ("2k", Some(2_000_000)),
        ("1Ki", Some(1_024_000)),
        ("1.5Gi", Some(1_610_612_736_000)),
        ("1e3", Some(1_000_000)),
        ("1E3", Some(1_000_000)),
        ("5e-1", Some(500)),
        ("1E", Some(i64::MAX)),
        ("8Ei", Some(i64::MAX)),
        ("0", Some(0)),
        ("", None),
        ("m", None),
        ("1x", None),
        ("1.2.3", None),
        ("1e99", None),
        ("1e-2147483648", None),
    ];
    for (text, expected) in table {
        assert_eq!(thousandths(text), expected, "{text}");
    }
}

#[test]
fn resources_without_cpu_and_memory_are_none() {
    let read = |value| where_given(&value).unwrap();
    let nothing: serde_json::Value =
        json!({"limits": {"nvidia.com/gpu": "1"}, "requests": null, "claims": []});
    assert_eq!(read(nothing), None);
    assert_eq!(read(serde_json::Value::Null), None);
    assert_eq!(
        read(json!({"limits": {"cpu": null}, "requests": {"memory": null}})),
        None
    );
    let resources =
        read(json!({"limits": {"memory": "1Ki", "nvidia.com/gpu": "1"}, "requests": {"cpu": 2}}))
            .unwrap();
    assert_eq!(
        (resources.requests.cpu, resources.limits.memory),
        (2000, 1_024_000)
    );
    let numbers =
        read(json!({"limits": {"cpu": -2}, "requests": {"cpu": 0.5, "memory": 3}})).unwrap();
    assert_eq!(
        (
            numbers.limits.cpu,
            numbers.requests.cpu,
            numbers.requests.memory
        ),
        (-2000, 500, 3000)
    );
    assert!(Resources::default().are_in(&resources) && !resources.are_in(&Resources::default()));
}
