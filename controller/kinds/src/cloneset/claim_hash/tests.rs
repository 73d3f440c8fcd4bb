use serde_json::json;

use super::*;

fn template(name: &str, requests: &str, limits: &str) -> VolumeClaimTemplate {
    VolumeClaimTemplate::from(&json!({
        "metadata": {"name": name, "labels": {"tier": "data"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": requests}, "limits": {"storage": limits}},
        },
    }))
}

fn edited(template: &VolumeClaimTemplate, edit: impl FnOnce(&mut Value)) -> VolumeClaimTemplate {
    let mut value = template.value();
    edit(&mut value);
    VolumeClaimTemplate::from(&value)
}

fn bare(name: &str) -> VolumeClaimTemplate {
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let status = json!({"phase": "Pending"});
    VolumeClaimTemplate::from(
        &json!({"metadata": {"name": name, "creationTimestamp": null}, "spec": spec, "status": status}),
    )
}

/// The hashes that OpenKruise's own program computes: of no claims, of one and of two, all without
/// a volumeMode. The last is of a revision that OpenKruise wrote, of a template as its webhook
/// stores it.
#[test]
fn claim_hash_notation_equals_openkruise() {
    assert_eq!(deep_hash("null"), 86_995_377);
    let (one, two) = (
        template("pvc-1", "1Gi", "2Gi"),
        template("pvc-2", "2Gi", "4Gi"),
    );
    assert_eq!(
        hash(std::slice::from_ref(&one), Mode::LeftOut),
        "1129974074"
    );
    assert_eq!(hash(&[one, two], Mode::LeftOut), "510584408");
    assert_eq!(hash(&[bare("data")], Mode::Stored), "3636919212");
}

#[test]
fn order_and_labels_do_not_count_but_sizes_do() {
    let hash = |templates: &[VolumeClaimTemplate]| hash(templates, Mode::Stored);
    let (one, two) = (template("a", "1Gi", "1Gi"), template("b", "1Gi", "1Gi"));
    assert_eq!(
        hash(&[one.clone(), two.clone()]),
        hash(&[two.clone(), one.clone()])
    );
    let same = edited(&one, |template| template["metadata"]["labels"] = json!({}));
    assert_eq!(hash(std::slice::from_ref(&one)), hash(&[same]));
    assert_eq!(
        hash(std::slice::from_ref(&one)),
        hash(&[template("a", "1024Mi", "1048576Ki")]),
        "other spellings"
    );
    assert_ne!(hash(&[one]), hash(&[template("a", "2Gi", "1Gi")]));
    assert_eq!(hash(&[]), "");
}

#[test]
fn each_spelling_of_the_default_is_found() {
    let bare = bare("a");
    let written = edited(&bare, |template| {
        template["spec"]["volumeMode"] = json!("Filesystem")
    });
    let of = |template: &VolumeClaimTemplate, mode| hash(std::slice::from_ref(template), mode);
    assert_ne!(of(&bare, Mode::Stored), of(&written, Mode::Stored));
    assert_eq!(of(&bare, Mode::Written), of(&written, Mode::Stored));
    assert_eq!(of(&written, Mode::LeftOut), of(&bare, Mode::Stored));
    let written = edited(&bare, |template| {
        template["spec"]["volumeMode"] = json!("Block")
    });
    assert_eq!(of(&written, Mode::LeftOut), of(&written, Mode::Stored));
    assert_eq!(
        of(&written, Mode::Written),
        of(&written, Mode::Stored),
        "what is no default is never another spelling"
    );
}
