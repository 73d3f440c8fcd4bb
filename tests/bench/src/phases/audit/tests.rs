use super::*;

#[test]
fn lines_are_counted_for_one_user() {
    let line = |who: &str, verb: &str, resource: &str, code: u16| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        serde_json::json!({
                "verb": verb, "user": {"username": "admin"}, "impersonatedUser": {"username": who},
                "objectRef": {"resource": resource, "subresource": subresource}, "responseStatus": {"code": code},
            })
            .to_string()
    };
    let mut requests = Requests::default();
    for (who, verb, resource, code) in [
        ("berth", "patch", "pods/status", 200),
        ("berth", "patch", "pods/status", 409),
        ("berth", "watch", "pods", 200),
        ("berth", "update", "leases", 200),
        ("other", "patch", "pods/status", 200),
        ("other", "patch", "nodeimages/status", 200),
        ("other", "get", "nodeimages/status", 200),
    ] {
        requests.count(&line(who, verb, resource, code), "berth");
    }
    requests.count("no JSON", "berth");
    assert_eq!(requests.all["patch pods/status"], 2);
    assert_eq!(requests.all["watch pods"], 1);
    assert_eq!(requests.refused, BTreeMap::from([(409, 1)]));
    assert_eq!((requests.writes(), requests.daemons), (2, 1));
}
