use super::*;

fn pull(image: &str, nodes: Option<&str>) -> Pull {
    Pull {
        image: image.to_owned(),
        nodes: nodes.map(str::to_owned),
        parallelism: Some("50%".to_owned()),
        pull_secrets: Vec::new(),
        watch: false,
        timeout: Duration::ZERO,
        write: WriteFlags {
            dry_run: DryRun::None,
            output: None,
        },
    }
}

#[test]
fn job_has_a_name_from_its_image() {
    let long = "a".repeat(80);
    let digest = format!("nginx@sha256:{}", "0".repeat(64));
    for (image, expected) in [
        ("nginx", "nginx-latest-abcde"),
        ("nginx:1.21", "nginx-1-21-abcde"),
        ("registry:5000/team/app_x:V2_a", "app-x-v2-a-abcde"),
        (&*digest, "nginx-sha256-00000000-abcde"),
        (&*long, &format!("{}-abcde", "a".repeat(40))),
    ] {
        let job = pull(image, None).object("abcde").unwrap();
        assert_eq!(name(&job), expected, "{image}");
        assert_eq!(job["spec"]["image"], image);
        assert_eq!(job["spec"]["parallelism"], "50%");
    }
}

#[test]
fn bad_images_make_no_job() {
    for image in [
        "",
        "NGINX:1",
        "nginx:",
        "nginx:1 2",
        "a//b",
        "nginx@sha256:1",
    ] {
        let refused = pull(image, None).object("abcde").unwrap_err();
        assert!(refused.0.contains("is no image reference"), "{refused}");
    }
}

#[test]
fn label_selector_of_its_text() {
    let table = [
        ("a=b", Some(json!({"matchLabels": {"a": "b"}}))),
        (
            "a==b, x.y/c=",
            Some(json!({"matchLabels": {"a": "b", "x.y/c": ""}})),
        ),
        (
            "z in (a, b),disk",
            Some(json!({"matchExpressions": [
                {"key": "z", "operator": "In", "values": ["a", "b"]},
                {"key": "disk", "operator": "Exists"}]})),
        ),
        (
            "z notin (a),k!=v,!gone",
            Some(json!({"matchExpressions": [
                {"key": "z", "operator": "NotIn", "values": ["a"]},
                {"key": "k", "operator": "NotIn", "values": ["v"]},
                {"key": "gone", "operator": "DoesNotExist"}]})),
        ),
        ("", None),
        ("a=b,", None),
        ("=b", None),
        ("a b", None),
        ("z in a", None),
    ];
    for (text, expected) in table {
        assert_eq!(label_selector(text).ok(), expected, "{text}");
    }
}

#[test]
fn job_ends_with_the_result_of_its_nodes() {
    let job = |status: Value| json!({"status": status});
    let table = [
        (json!({}), "waits for the controller", None),
        (
            json!({"desired": 2, "succeeded": 1, "message": "1 of 2"}),
            "1 of 2",
            None,
        ),
        (
            json!({"desired": 2, "succeeded": 2, "completionTime": "t", "message": "m"}),
            "m",
            Some(Exit::Done),
        ),
        (
            json!({"desired": 2, "succeeded": 1, "failed": 1, "completionTime": "t", "message": "m"}),
            "m",
            Some(Exit::Failed),
        ),
        (
            json!({"desired": 2, "succeeded": 1, "completionTime": "t", "message": "too late"}),
            "too late",
            Some(Exit::Failed),
        ),
        (
            json!({"desired": 0, "completionTime": "t", "message": "no node"}),
            "no node",
            Some(Exit::Failed),
        ),
    ];
    for (status, line, exit) in table {
        assert_eq!(
            progress(&job(status.clone())),
            (line.to_owned(), exit),
            "{status}"
        );
    }
}

#[test]
fn failed_nodes_have_the_message_of_their_pull() {
    let job = json!({"status": {"failedNodes": ["a", "b"]}});
    let tag = json!({"tag": "2", "phase": "Failed", "message": "not found"});
    let of_a =
        json!({"metadata": {"name": "a"}, "status": {"imageStatuses": {"web": {"tags": [tag]}}}});
    assert_eq!(
        failures(&job, "web:2", &[of_a]),
        [
            "error: node a has not pulled web:2: not found",
            "error: node b has not pulled web:2",
        ]
    );
    assert_eq!(
        failures(&json!({}), "web:2", &[]),
        ["error: not all nodes have web:2"]
    );
}
