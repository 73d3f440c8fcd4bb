use super::*;

#[test]
fn ready_pod_deletes_endpoint_slice_of_unready_pod() {
    let slice = |name: &str, by: &str, pods: &[(&str, bool)]| -> EndpointSlice {
        let endpoint = |(uid, ready): &(&str, bool)| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"uid": uid}});
        let labels = json!({(MANAGED_BY): by});
        serde_json::from_value(json!({
                "metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
            }))
            .unwrap()
    };
    let [mine, theirs] = ["me", "other"].map(|uid| slice(uid, FIELD_MANAGER, &[(uid, true)]));
    for (of_kubernetes, expected) in [
        (vec![("me", true), ("other", false)], vec!["other"]),
        (vec![("me", true), ("other", true)], vec![]),
        (vec![("me", true)], vec![]),
        (vec![("me", false), ("other", false)], vec![]),
    ] {
        let all = [
            mine.clone(),
            theirs.clone(),
            slice("k", "endpointslice-controller.k8s.io", &of_kubernetes),
        ];
        assert_eq!(standing_still(&all, "me"), expected, "{of_kubernetes:?}");
    }
}
