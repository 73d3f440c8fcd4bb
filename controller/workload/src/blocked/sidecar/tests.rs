use serde_json::json;

use super::*;

#[test]
fn container_belongs_to_sidecarset_that_lists_it() {
    let records = json!({
        "log": {"hash": "h", "sidecarSetName": "log", "sidecarList": ["agent", "proxy-1"]},
        "mesh": {"sidecarList": ["mesh"]}, "none": {"sidecarList": null}, "odd": {"sidecarList": 5}, "old": "h",
        "a\nforged name": {"sidecarList": ["evil"]},
    });
    let records = records.to_string();
    for (text, container, expected) in [
        (&*records, "agent", Some(("log", "agent"))),
        (&records, "proxy-1", Some(("log", "proxy-1"))),
        (&records, "mesh-1", Some(("mesh", "mesh"))),
        (&records, "mesh-2", Some(("mesh", "mesh"))),
        (&records, "mesh-3", None),
        (&records, "main", None),
        (&records, "evil", None),
        ("agent", "agent", None),
        ("", "agent", None),
    ] {
        let pod = json!({"metadata": {"annotations": {SIDECARSET_HASH: text}}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let found = brought(&pod, container);
        let found = found
            .as_ref()
            .map(|(set, name)| (set.as_str(), name.as_str()));
        assert_eq!(found, expected, "{container} by {text:.40}");
    }
}
