use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use super::archive::{ALL, Archive};
use super::mask::{MASK, masked};
use super::{newest, short_node};

#[test]
fn masked_objects_have_no_secret_values() {
    let patch = json!({"spec": {"containers": [{"name": "web", "env": [{"name": "KEY", "value": "s3cret"}]}]}});
    let applied = "kubectl.kubernetes.io/last-applied-configuration";
    let object = json!({
        "metadata": {
            "name": "web",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {applied: "s3cret", "apps.kruise.io/subset-patch": patch.to_string(), "deployment.kubernetes.io/revision": "7"},
        },
        "spec": {
            "template": {"spec": {
                "containers": [{
                    "name": "web",
                    "env": [
                        {"name": "KEY", "value": "s3cret"},
                        {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                    ],
                    "lifecycle": {"preStop": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "s3cret"}]}}},
                }],
                "initContainers": [{"env": [{"name": "A", "value": "s3cret"}]}],
            }},
            "topology": {"subsets": [{"patch": patch}]},
            "embedded": {"kind": "Secret", "metadata": {"name": "key"}, "data": {"k": "s3cret"}},
            "odd": {"env": {"KEY": "s3cret"}},
        },
    });
    let masked = masked(&object);
    let text = masked.to_string();
    assert!(!text.contains("s3cret"), "{text}");
    assert!(!text.contains("managedFields"));
    let revision = "deployment.kubernetes.io/revision";
    assert_eq!(masked["metadata"]["annotations"][revision], "7");
    assert_eq!(masked["metadata"]["annotations"][applied], MASK);
    let web = &masked["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(web["env"][0], json!({"name": "KEY", "value": MASK}));
    assert_eq!(web["env"][1]["valueFrom"]["secretKeyRef"]["name"], "key");
}

#[test]
fn annotations_of_others_are_masked() {
    let cases = [
        (
            "kubectl.kubernetes.io/last-applied-configuration",
            "{}",
            MASK,
        ),
        (
            "kubernetes.io/change-cause",
            "kubectl set env KEY=s3cret",
            MASK,
        ),
        ("vault.example.com/token", "s3cret", MASK),
        ("kruise.io.example.com/token", "s3cret", MASK),
        ("evilkruise.io/token", "s3cret", MASK),
        ("plain", "s3cret", MASK),
        ("kubectl.kubernetes.io/restartedAt", "now", "now"),
        ("lifecycle.apps.kruise.io/timestamp", "now", "now"),
        ("kruise.io/sidecarset-injected-list", "log", "log"),
    ];
    for (name, value, expected) in cases {
        for place in ["/metadata", "/spec/template/metadata"] {
            let annotations = json!({"annotations": {name: value}});
            let object = match place {
                "/metadata" => json!({"metadata": annotations}),
                _ => json!({"spec": {"template": {"metadata": annotations}}}),
            };
            let masked = masked(&object);
            let found = &masked.pointer(place).unwrap()["annotations"][name];
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn newest_objects_are_kept() {
    let event = |time: &str| json!({"metadata": {"creationTimestamp": time}});
    let series = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": "2026-01-09T00:00:00Z"});
    let all = vec![
        event("2026-01-03T00:00:00Z"),
        event("2026-01-02T00:00:00Z"),
        series.clone(),
    ];
    let (kept, left) = newest(all.clone(), 2);
    assert_eq!(
        (kept, left),
        (vec![series, event("2026-01-03T00:00:00Z")], 1)
    );
    assert_eq!(newest(all, 3).1, 0);
}

#[test]
fn archive_ends_at_its_bound_and_says_so() {
    let path = std::env::temp_dir().join(format!("berth-report-{}.tar.gz", std::process::id()));
    let mut archive = Archive::new(std::fs::File::create(&path).unwrap());
    archive.add("a", b"first").unwrap();
    archive.add("b", &vec![b'x'; ALL]).unwrap();
    assert!(archive.is_full());
    archive.lacks("c", "no right");
    let (files, lacks) = archive.finish().unwrap();
    let bytes: usize = files.iter().take(2).map(|(_, bytes)| bytes).sum();
    assert_eq!(bytes, ALL);
    assert_eq!(lacks.len(), 2);
    let mut tar = tar::Archive::new(GzDecoder::new(std::fs::File::open(&path).unwrap()));
    let mut text = String::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with("lacks.txt") {
            entry.read_to_string(&mut text).unwrap();
        }
    }
    assert!(text.ends_with("c: no right\n"), "{text}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn node_has_labels_taints_and_conditions() {
    let node = json!({
        "metadata": {"name": "a", "labels": {"k": "v"}, "annotations": {"token": "s3cret"}},
        "spec": {"unschedulable": true, "taints": [{"key": "t"}], "providerID": "x"},
        "status": {"conditions": [{"type": "Ready"}], "images": []},
    });
    let expected = json!({"name": "a", "labels": {"k": "v"}, "taints": [{"key": "t"}],
        "unschedulable": true, "conditions": [{"type": "Ready"}]});
    assert_eq!(short_node(&node), expected);
}
