//! Facts about OpenKruise 1.9: `vectors.json` has, for specs made for it, the text that it hashes and both hashes, as
//! its own functions give them; those of an empty policy of shared devices follow from Go's encoder, which leaves out a
//! type that is not said. In v1alpha1 they are the same.

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
        assert_eq!(written(&fact.spec, Images::Kept), fact.text, "{}", fact.what);
        let expected = Hashes { hash: fact.hash, without_image: fact.hash_without_image };
        assert_eq!(hashes(&fact.spec), expected, "{}", fact.what);
    }
}

#[test]
fn what_a_revision_keeps_of_a_spec_has_the_same_hashes() {
    for fact in facts() {
        let mut kept = kept(&fact.spec);
        kept.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let read: SidecarSetSpec = serde_json::from_value(kept).unwrap();
        assert_eq!(hashes(&read), hashes(&fact.spec), "{}", fact.what);
    }
}

#[test]
fn an_image_is_in_the_first_hash_only() {
    for mut fact in facts().into_iter().filter(|fact| !fact.spec.containers.is_empty()) {
        // The default of the pull policy looks at the tag.
        fact.spec.containers[0].container.insert("imagePullPolicy".to_owned(), json!("Never"));
        let before = hashes(&fact.spec);
        fact.spec.containers[0].container.insert("image".to_owned(), json!("other:2"));
        let after = hashes(&fact.spec);
        assert_ne!(before.hash, after.hash, "{}", fact.what);
        assert_eq!(before.without_image, after.without_image, "{}", fact.what);
    }
}

#[test]
fn annotations_and_what_pods_are_selected_by_are_in_neither() {
    let mut fact = facts().remove(0);
    let before = hashes(&fact.spec);
    fact.spec.custom_version = "2".to_owned();
    fact.spec.volumes.clear();
    fact.spec.selector = Some(Default::default());
    assert_eq!(hashes(&fact.spec), before);
}
