//! Facts about OpenKruise 1.9. `vectors.json` has specs, and for each the text that OpenKruise
//! hashes and both hashes, as its own functions give them. The hashes of an empty policy of shared
//! devices follow from Go's encoder, which leaves out a type that is not set. In v1alpha1 the
//! hashes are the same.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fact {
    what: String,
    spec: SidecarSetSpec,
    text: String,
    hash: String,
    hash_without_image: String,
}

fn facts() -> Vec<Fact> {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

#[test]
fn hashes_are_those_of_openkruise_byte_for_byte() {
    let facts = facts();
    assert!(facts.len() >= 40, "the table is read");
    for fact in facts {
        assert_eq!(
            written(&fact.spec, Images::Kept),
            fact.text,
            "{}",
            fact.what
        );
        let expected = Hashes {
            hash: fact.hash,
            without_image: fact.hash_without_image,
        };
        assert_eq!(hashes(&fact.spec), expected, "{}", fact.what);
    }
}

#[test]
fn spec_kept_in_a_revision_has_the_same_hashes() {
    for fact in facts() {
        let mut kept = kept(&fact.spec);
        kept.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let read: SidecarSetSpec = serde_json::from_value(kept).unwrap();
        assert_eq!(hashes(&read), hashes(&fact.spec), "{}", fact.what);
    }
}

#[test]
fn an_image_is_in_the_first_hash_only() {
    for mut fact in facts()
        .into_iter()
        .filter(|fact| !fact.spec.containers.is_empty())
    {
        // The default of the pull policy depends on the tag.
        fact.spec.containers[0]
            .container
            .insert("imagePullPolicy".to_owned(), json!("Never"));
        let before = hashes(&fact.spec);
        fact.spec.containers[0]
            .container
            .insert("image".to_owned(), json!("other:2"));
        let after = hashes(&fact.spec);
        assert_ne!(before.hash, after.hash, "{}", fact.what);
        assert_eq!(before.without_image, after.without_image, "{}", fact.what);
    }
}

#[test]
fn selectors_and_volumes_are_in_neither_hash() {
    let mut fact = facts().remove(0);
    let before = hashes(&fact.spec);
    fact.spec.custom_version = "2".to_owned();
    fact.spec.volumes.clear();
    fact.spec.selector = Some(Default::default());
    assert_eq!(hashes(&fact.spec), before);
}

#[test]
fn unknown_field_is_in_both_hashes_and_is_kept() {
    let of = |place: &str, field: Value| {
        let mut container = json!({
            "name": "agent", "image": "agent:1", "restartPolicy": "Always", "lifecycle": {},
            "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "a"}}}], "volumeMounts": [{"name": "v"}],
        });
        container.pointer_mut(place).unwrap()["isNew"] = field;
        container
    };
    let places = [
        "",
        "/lifecycle",
        "/env/0",
        "/env/0/valueFrom",
        "/env/0/valueFrom/fileKeyRef",
        "/volumeMounts/0",
    ];
    for (place, list) in places
        .iter()
        .flat_map(|place| ["containers", "initContainers"].map(|list| (place, list)))
    {
        let spec = |field: Value| -> SidecarSetSpec {
            serde_json::from_value(json!({(list): [of(place, field)]})).unwrap()
        };
        let fields = [
            json!(null),
            json!(false),
            json!(0),
            json!(""),
            json!({}),
            json!([{"a": ""}]),
            json!([{"a": "b"}]),
        ];
        let all: Vec<_> = fields
            .iter()
            .map(|field| hashes(&spec(field.clone())))
            .collect();
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(one.hash, other.hash, "{list}{place}");
                assert_ne!(one.without_image, other.without_image, "{list}{place}");
            }
        }
        for field in &fields[1..] {
            let kept = &kept(&spec(field.clone()))[list][0];
            assert_eq!(
                kept.pointer(place).unwrap()["isNew"],
                *field,
                "{list}{place}"
            );
        }
    }
}
