use proptest::prelude::*;
use serde_json::json;

use super::*;

fn minutes(reserved: &serde_json::Value, annotation: Option<&str>) -> u32 {
    let mut annotations = serde_json::Map::new();
    annotations.extend(annotation.map(|text| (ANNOTATION.to_owned(), json!(text))));
    let config = json!({
        "cniVersion": "1.0.0", "name": "net", "ipam": {"reservedIPs": reserved},
        "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
    });
    let config = Config::read(config.to_string().as_bytes()).unwrap();
    config.minutes(Some(&Pod {
        namespace: "ns".into(),
        name: "web-0".into(),
    }))
}

#[test]
fn annotation_keeps_ips_only_in_listed_namespaces() {
    for (namespaces, expected) in [
        (json!([]), 0),
        (json!(["other"]), 0),
        (json!(["ns"]), 10),
        (json!(["*"]), 10),
    ] {
        let reserved = json!({"annotationNamespaces": namespaces});
        assert_eq!(minutes(&reserved, Some("10")), expected, "{reserved}");
    }
    assert_eq!(minutes(&json!({}), Some("10")), 0);
    // The annotation may set less where it may not set more.
    let reserved = json!({"minutes": 5, "namespaces": ["ns"]});
    for (annotation, expected) in [
        (None, 5),
        (Some("0"), 0),
        (Some("3"), 3),
        (Some("10"), 5),
        (Some("x"), 0),
    ] {
        assert_eq!(minutes(&reserved, annotation), expected, "{annotation:?}");
    }
}

#[test]
fn nothing_is_kept_for_longer_than_the_most_minutes() {
    let all = json!({"annotationNamespaces": ["*"]});
    for annotation in [
        "1441",
        "4294967295",
        "4294967296",
        "99999999999999999999999",
    ] {
        assert_eq!(minutes(&all, Some(annotation)), MAX_MINUTES, "{annotation}");
    }
    assert_eq!(
        minutes(
            &json!({"annotationNamespaces": ["*"], "maxMinutes": 4_000_000_000_u32}),
            Some("99999999999")
        ),
        4_000_000_000
    );
    assert_eq!(
        minutes(
            &json!({"namespaces": ["*"], "minutes": 50, "maxMinutes": 20}),
            None
        ),
        20
    );
    assert_eq!(
        minutes(
            &json!({"annotationNamespaces": ["*"], "maxMinutes": 0}),
            Some("5")
        ),
        0
    );
}

proptest! {
    #[test]
    fn annotation_never_exceeds_max_minutes(annotation in "[-+ ]?[0-9]{0,30}|\\PC{0,20}", most: u32) {
        let reserved = json!({"annotationNamespaces": ["*"], "maxMinutes": most});
        prop_assert!(minutes(&reserved, Some(&annotation)) <= most);
        prop_assert_eq!(minutes(&json!({"maxMinutes": most}), Some(&annotation)), 0);
    }
}
