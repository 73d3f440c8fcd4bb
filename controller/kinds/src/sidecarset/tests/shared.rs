//! Annotations of a pod that several SidecarSets share.

use super::*;

#[test]
fn first_injected_list_names_all_recorded_sets() {
    for (what, list, expected) in [
        ("it has none", None, Some("log,mesh")),
        ("it has an empty one", Some(""), Some("log,mesh")),
        ("one that is there stays as it is", Some("log"), None),
    ] {
        let mut pod = pod("a", "h1", true);
        let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.insert(
            HASH.to_owned(),
            json!(json!({"log": "h1", "mesh": "h5"}).to_string()),
        );
        annotations.remove(INJECTED_LIST);
        annotations.extend(list.map(|list| (INJECTED_LIST.to_owned(), json!(list))));
        let plan = decide(&snapshot(&json!({}), &[pod]), NOW);
        let Some(Action::PatchPod { patch, .. }) = plan.actions().next() else {
            panic!("{what}: {plan:#?}")
        };
        assert_eq!(
            patch
                .annotations
                .get(INJECTED_LIST)
                .cloned()
                .flatten()
                .as_deref(),
            expected,
            "{what}"
        );
    }
}
