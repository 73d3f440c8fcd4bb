use berth_workload::plan::{Outcome, Plan};

use super::*;
use crate::sidecarset::status;
use crate::sidecarset::tests::{NOW, pod, snapshot};

#[test]
fn pod_older_than_namespace_label_counts_as_older() {
    let bare = |namespace: &str, name: &str, made: &str| {
        let mut pod = pod(name, "h2", true);
        pod["metadata"]["annotations"] = json!({});
        pod["metadata"]["namespace"] = json!(namespace);
        pod["metadata"]["creationTimestamp"] = json!(made);
        pod
    };
    let pods = [
        bare("shop", "a", "2026-02-28T00:00:00Z"),
        bare("shop", "b", "2026-03-01T00:00:00Z"),
        bare("shop", "c", "2026-03-01T00:00:01Z"),
        bare("other", "d", "2026-02-28T00:00:00Z"),
    ];
    let counts = |labelled: &[(&str, &str)]| {
        let mut snapshot = snapshot(&json!({}), &pods);
        let time = |time: &str| time.parse::<Timestamp>().unwrap();
        snapshot.labelled = labelled
            .iter()
            .map(|(namespace, at)| (Box::<str>::from(*namespace), time(at)))
            .collect();
        let injection = status(&snapshot, &Plan::default(), &Outcome::default(), NOW)
            .injection
            .unwrap();
        (injection.missed, injection.older)
    };
    assert_eq!(counts(&[]), (4, 0));
    assert_eq!(
        counts(&[("shop", "2026-03-01T00:00:00Z")]),
        (2, 2),
        "in the same second it may have been before"
    );
    assert_eq!(
        counts(&[("shop", "2025-03-01T00:00:00Z")]),
        (4, 0),
        "the SidecarSet is younger"
    );
}
