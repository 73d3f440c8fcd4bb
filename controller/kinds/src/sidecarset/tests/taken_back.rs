//! Hot upgrades that are rolled back before the old container gets the empty image.

use super::natives::{images, one_patch};
use super::*;

const VERSIONS: [&str; 2] = [
    "version.sidecarset.kruise.io/mesh-1",
    "version.sidecarset.kruise.io/mesh-2",
];
const ALTS: [&str; 2] = [
    "versionalt.sidecarset.kruise.io/mesh-1",
    "versionalt.sidecarset.kruise.io/mesh-2",
];

/// A pod whose own container is not ready, and whose `mesh-2` has got `mesh:9`. Now `mesh:2` is
/// wanted.
fn halfway(first: &str, ready: [bool; 2]) -> Value {
    let mut pod = hot_pod([first, "mesh:9"], "h9", "mesh-2", ready);
    pod["status"]["containerStatuses"][0]["ready"] = json!(false);
    pod["metadata"]["annotations"][VERSIONS[1]] = json!("60");
    pod
}

#[test]
fn older_container_is_emptied_before_it_is_reused() {
    for (what, ready, strategy) in [
        ("both run", [true, true], json!({})),
        ("the older one fails", [false, true], json!({})),
        (
            "updates are paused by now",
            [true, true],
            json!({"paused": true}),
        ),
    ] {
        let patch = one_patch(&decide(
            &hot_snapshot(&[halfway("mesh:2", ready)], strategy),
            NOW,
        ));
        assert_eq!(patch.images, images("mesh-1", "empty:1"), "{what}");
        let versions = [VERSIONS[0], ALTS[1]].map(|key| patch.annotations[key].as_deref());
        assert_eq!(versions, [Some("0"), Some("0")], "{what}");
        assert!(
            !patch.annotations.contains_key(WORKING) && !patch.annotations.contains_key(HASH),
            "{what}"
        );
    }

    let mut emptied = halfway("empty:1", [true, true]);
    for key in [VERSIONS[0], ALTS[1]] {
        emptied["metadata"]["annotations"][key] = json!("0");
    }
    let patch = one_patch(&decide(&hot_snapshot(&[emptied], json!({})), NOW));
    assert_eq!(patch.images, images("mesh-1", "mesh:2"));
    let says =
        [WORKING, VERSIONS[0], ALTS[0], ALTS[1]].map(|key| patch.annotations[key].as_deref());
    assert_eq!(
        says,
        [
            Some(r#"{"mesh":"mesh-1"}"#),
            Some("77"),
            Some("60"),
            Some("77")
        ]
    );
}

#[test]
fn older_container_stays_until_the_new_one_serves() {
    let patch = one_patch(&decide(
        &hot_snapshot(&[halfway("mesh:2", [true, false])], json!({})),
        NOW,
    ));
    assert_eq!(patch.images, images("mesh-2", "mesh:2"));
}
