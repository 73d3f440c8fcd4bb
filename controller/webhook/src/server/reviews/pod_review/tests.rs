use super::*;

#[test]
fn head_is_found_wherever_the_review_is_cut() {
    let object = json!({"metadata": {"namespace": "other", "uid": "other"}});
    // The order of the apiserver's fields.
    let review = format!(
        r#"{{"kind":"AdmissionReview","request":{{"uid":"u","kind":{{"kind":"Pod"}},"name":"\",\"namespace\":\"x",
                "namespace":"t1","userInfo":{{"extra":{{"uid":["z"]}}}},"object":{object}}}}}"#
    );
    let [after_uid, after_namespace] =
        [r#""u""#, r#""t1""#].map(|text| review.find(text).unwrap() + text.len());
    for end in 0..=review.len() {
        let [uid, namespace] = [("u", after_uid), ("t1", after_namespace)]
            .map(|(text, at)| if end < at { "" } else { text });
        let expected = Head {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
        };
        assert_eq!(Head::of(&review.as_bytes()[..end]), expected, "{end}");
    }
}
