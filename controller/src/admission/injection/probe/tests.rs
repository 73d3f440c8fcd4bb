use super::*;

#[test]
fn dry_run_answer_says_what_a_successor_lacks() {
    let refused = |code: u16| {
        Some(Failed {
            code,
            message: "no".to_owned(),
            ..Failed::default()
        })
    };
    let warnings = |all: &[&str]| {
        all.iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let asked = berth_webhook::pods::applied_warning("log");
    for (what, said, refusal, expected) in [
        ("it gets them", vec![&*asked], None, None),
        ("a quota is used up", vec![&*asked], refused(403), None),
        (
            "nothing is said",
            vec![],
            None,
            Some("no replica answered the webhook's call"),
        ),
        (
            "another set answers",
            vec!["SidecarSet logs was asked"],
            None,
            Some("no replica answered the webhook's call"),
        ),
        ("it is refused before", vec![], refused(403), Some("no")),
        (
            "another set has the name",
            vec![&*asked, "SidecarSet log is left out: name x"],
            None,
            Some("name x"),
        ),
        (
            "a volume is missing",
            vec![&*asked],
            refused(422),
            Some("no"),
        ),
    ] {
        let said = DryRun {
            warnings: warnings(&said),
            refusal,
        };
        assert_eq!(lacks("log", &said).as_deref(), expected, "{what}");
    }
}

#[test]
fn probe_is_like_the_pod_without_its_node() {
    let pod = json!({
        "metadata": {"name": "a", "uid": "u", "labels": {"app": "web"}, "annotations": {"x": "y"}, "ownerReferences": [{}]},
        "spec": {"nodeName": "n", "ephemeralContainers": [], "containers": [{"name": "main"}]}, "status": {},
    });
    let metadata =
        json!({"generateName": PROBE, "labels": {"app": "web"}, "annotations": {"x": "y"}});
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main"}]},
    });
    assert_eq!(like(&pod), expected);
}
