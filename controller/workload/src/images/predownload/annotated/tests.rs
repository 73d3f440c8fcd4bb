use std::collections::BTreeMap;

use super::*;

#[test]
fn min_ready_pods_is_a_number_or_a_percentage() {
    for (text, wanted, expected) in [
        (None, 5, 0),
        (Some("3"), 5, 3),
        (Some("30%"), 5, 2),
        (Some("100%"), 5, 5),
        (Some("0%"), 5, 0),
        (Some("50%"), 0, 0),
        (Some("-2"), 5, 0),
        (Some("abc"), 5, 0),
        (Some("abc%"), 5, 0),
    ] {
        let key = IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS.to_owned();
        let annotations: BTreeMap<_, _> = text
            .map(|text| (key, text.to_owned()))
            .into_iter()
            .collect();
        let metadata = ObjectMeta {
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        assert_eq!(
            Annotated::of(&metadata).min_updated_ready(wanted),
            expected,
            "{text:?} of {wanted}"
        );
    }
}
