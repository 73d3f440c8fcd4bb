use berth_workload::update::revision::{hash, revision_name};
use serde_json::json;

use super::*;
use crate::sidecarset::names::{HASH, HASH_WITHOUT_IMAGE};

fn of_image(image: &str, revision: &str) -> SidecarSet {
    let containers = json!([{"name": "agent", "image": image}]);
    let spec = json!({"containers": containers, "injectionStrategy": {"revision": {"revisionName": revision}}});
    serde_json::from_value(json!({"metadata": {"name": "log"}, "spec": spec})).unwrap()
}

/// A revision with the data of another spec, and a name after this many collisions.
fn revision_of(set: &SidecarSet, collisions: i32, annotations: &Value) -> Arc<Revision> {
    let data = revisions::data(&set.spec);
    let name = revision_name("log", &hash(&data, collisions));
    let metadata =
        json!({"name": name, "namespace": "kruise-system", "uid": "r", "annotations": annotations});
    Arc::new(
        serde_json::from_value(json!({"metadata": metadata, "revision": 1, "data": data})).unwrap(),
    )
}

#[test]
fn pinned_revision_hashes_ignore_its_annotations() {
    let old = of_image("agent:1", "");
    for annotations in [
        json!({}),
        json!({HASH: "believed", HASH_WITHOUT_IMAGE: "believed"}),
        json!({HASH: hashes(&old.spec).hash, HASH_WITHOUT_IMAGE: ""}),
    ] {
        let history = [revision_of(&old, 0, &annotations)];
        let name = history[0].metadata.name.to_string();
        let set = of_image("agent:2", &name);
        let latest = Wanted::latest(&set, &history);
        let wanted = wanted(&set, || history.to_vec(), &latest, |_| None, (0.5, None)).unwrap();
        assert_eq!(
            (&wanted.revision, &wanted.hashes),
            (&name, &hashes(&old.spec)),
            "{annotations}"
        );
        assert_ne!(wanted.hashes.hash, latest.hashes.hash);
    }
}

#[test]
fn pinned_revision_with_other_data_is_not_given() {
    let (old, evil) = (of_image("agent:1", ""), of_image("evil:1", ""));
    for (what, data, collisions, of_status, is_given) in [
        ("as it was made", &old, 0, Value::Null, true),
        ("made after a collision", &old, 1, json!(1), true),
        ("a collision that was none", &old, 1, json!(0), false),
        (
            "a collision beyond all that are tried",
            &old,
            17,
            json!(i32::MAX),
            false,
        ),
        (
            "made anew with other containers",
            &evil,
            0,
            Value::Null,
            false,
        ),
    ] {
        let named = revision_of(&old, collisions, &json!({}));
        let replaced = Revision {
            metadata: named.metadata.clone(),
            ..(*revision_of(data, 0, &json!({}))).clone()
        };
        let mut set = of_image("agent:2", &named.metadata.name);
        set.status = serde_json::from_value(json!({"collisionCount": of_status})).unwrap();
        let history = [Arc::new(replaced)];
        let latest = Wanted::latest(&set, &history);
        let wanted = wanted(&set, || history.to_vec(), &latest, |_| None, (0.5, None));
        let says_why = |why: &String| why.contains("has other data than its name says");
        assert_eq!(
            (wanted.is_ok(), wanted.as_ref().is_err_and(says_why)),
            (is_given, !is_given),
            "{what}"
        );
    }
}
