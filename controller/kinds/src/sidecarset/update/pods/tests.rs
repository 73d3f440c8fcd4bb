use serde_json::{Value, json};

use super::*;

#[test]
fn failure_counts_only_for_the_wanted_image() {
    let waiting =
        |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
    let pulls = r#"Back-off pulling image "nginx:9": ErrImagePull: failed to pull "docker.io/library/nginx:9""#;
    let crash = || {
        waiting(
            "CrashLoopBackOff",
            "back-off 10s restarting failed container",
        )
    };
    for (image, had, state, expected) in [
        ("nginx:9", "", waiting("ImagePullBackOff", pulls), true),
        ("nginx:9", "", waiting("ImagePullBackOff", ""), true),
        ("nginx:8", "", waiting("ImagePullBackOff", pulls), false),
        ("nginx:9", "docker.io/library/nginx:9", crash(), true),
        ("nginx:9", "nginx:bad", crash(), false),
        ("nginx:9", "", crash(), true),
        (
            "nginx:9",
            "nginx:bad",
            waiting("CreateContainerError", "no such program"),
            true,
        ),
        (
            "nginx:9",
            "nginx:9",
            waiting("ContainerCreating", ""),
            false,
        ),
        ("nginx:9", "nginx:9", json!({}), false),
    ] {
        let status: Value = json!({"name": "agent", "image": had, "state": state});
        let status: ContainerStatus = serde_json::from_value(status).unwrap();
        assert_eq!(
            failure(&status, image, List::Main).is_some(),
            expected,
            "{image} {status:?}"
        );
    }
}
