use serde_json::json;

use super::*;
use crate::sidecarset::tests::{hot_pod, hot_snapshot, pod, snapshot};

fn said(snapshot: &Snapshot) -> Vec<String> {
    drifted(snapshot)
        .into_iter()
        .map(|(pod, why)| format!("{}: {why}", pod.metadata.name))
        .collect()
}

#[test]
fn image_unlike_the_recorded_revision_is_drift() {
    let record = |hash: &str, revision: &str| {
        json!(json!({"log": {"hash": hash, "controllerRevision": revision}}).to_string())
    };
    for (what, hash, revision, image, drifts) in [
        ("the latest", "h2", "log-0", "agent:2", false),
        (
            "another in place of the latest",
            "h2",
            "log-0",
            "evil:1",
            true,
        ),
        ("that of an older revision", "h1", "log-1", "agent:2", false),
        (
            "another in place of an older one",
            "h1",
            "log-1",
            "agent:1",
            true,
        ),
        ("of an unknown revision", "h1", "log-0", "evil:1", false),
    ] {
        let mut pod = pod("a", "h2", true);
        pod["metadata"]["annotations"][HASH] = record(hash, revision);
        pod["spec"]["containers"][1]["image"] = json!(image);
        let found = said(&snapshot(&json!({}), &[pod]));
        assert_eq!(found.len(), usize::from(drifts), "{what}: {found:?}");
        assert!(
            found
                .iter()
                .all(|said| said.contains("agent has the image \"") && said.contains(image)),
            "{found:?}"
        );
    }
}

#[test]
fn a_pod_whose_records_are_forged_has_drifted() {
    let mut bare = pod("a", "h2", true);
    bare["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .truncate(1);
    let found = said(&snapshot(&json!({}), &[bare]));
    assert!(found[0].contains("has no container agent"), "{found:?}");
    let mut odd = pod("a", "h2", true);
    for record in [json!("{"), json!("{}")] {
        odd["metadata"]["annotations"][HASH] = record;
        let found = said(&snapshot(&json!({}), &[odd.clone()]));
        assert!(
            found[0].contains("lists SidecarSet log, but annotation"),
            "{found:?}"
        );
    }
    odd["metadata"]["annotations"] = json!({INJECTED_LIST: "log"});
    assert_eq!(said(&snapshot(&json!({}), &[odd.clone()])).len(), 1);
    // Without a list only a record says that the pod has the containers.
    odd["metadata"]["annotations"] = json!({});
    assert!(said(&snapshot(&json!({}), &[odd])).is_empty());
}

#[test]
fn hot_pair_drifts_if_an_image_is_unexpected() {
    let found = |images: [&str; 2], working: &str| {
        said(&hot_snapshot(
            &[hot_pod(images, "h2", working, [true, true])],
            json!({}),
        ))
        .len()
    };
    assert_eq!(found(["mesh:2", "empty:1"], "mesh-1"), 0);
    assert_eq!(found(["mesh:3", "empty:1"], "mesh-1"), 1);
    assert_eq!(found(["mesh:2", "evil:1"], "mesh-1"), 1);
    assert_eq!(
        found(["mesh:1", "mesh:2"], "mesh-2"),
        0,
        "the old one works until the new one does"
    );
}
