use super::*;

#[test]
fn pod_lists_refusals_only_while_they_last() {
    let mut pod = json!({"metadata": {"name": "a"}});
    note(&mut pod, [].into_iter());
    assert_eq!(pod, json!({"metadata": {"name": "a"}}));
    let why = "x".repeat(LONGEST + 1);
    note(
        &mut pod,
        [("log", "no revision"), ("mesh", &*why)].into_iter(),
    );
    let seen: Pod = serde_json::from_value(pod.clone()).unwrap();
    assert_eq!(reason(&seen, "log").as_deref(), Some("no revision"));
    assert_eq!(reason(&seen, "mesh").map(|why| why.len()), Some(LONGEST));
    assert_eq!(reason(&seen, "other"), None);
    note(&mut pod, [].into_iter());
    assert_eq!(pod["metadata"]["annotations"], json!({}));
}
