use serde_json::json;

use super::*;

#[test]
fn the_hash_is_stable_and_safe() {
    let template = json!({"spec": {"containers": []}, "metadata": {}});
    // Written out, so that a release never renames the revisions of the one before.
    assert_eq!(
        hash(&template, 0),
        hash(&json!({"metadata": {}, "spec": {"containers": []}}), 0)
    );
    assert_ne!(hash(&template, 0), hash(&template, 1));
    assert!(hash(&template, 7).bytes().all(|b| ALPHABET.contains(&b)));
}

#[test]
fn names_are_cut_to_fit() {
    assert_eq!(revision_name("web", "6d5f"), "web-6d5f");
    let name = revision_name(&"x".repeat(250), "6d5f");
    assert_eq!(name.len(), LONGEST_PREFIX + 5);
    assert_eq!((short(&name), short("6d5f")), ("6d5f", "6d5f"));
}
