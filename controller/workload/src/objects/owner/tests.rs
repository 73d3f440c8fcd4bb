use super::*;

#[test]
fn owner_matches_by_namespace_group_kind_and_uid() {
    let set = OwnerKey {
        kind: CLONE_SET,
        namespace: "a",
        uid: "u",
    };
    let reference = Reference {
        api_version: "apps.kruise.io/v1alpha1",
        kind: "CloneSet",
        name: "web",
        uid: "u",
    };
    assert!(set.owns("a", &reference));
    assert!(!set.owns("b", &reference), "another namespace");
    for forged in [
        Reference {
            uid: "other",
            ..reference
        },
        Reference {
            kind: "Nothing",
            ..reference
        },
        Reference {
            api_version: "none.example/v1",
            ..reference
        },
        Reference {
            api_version: "v1",
            ..reference
        },
        Reference {
            api_version: "apps.kruise.io.example/v1",
            ..reference
        },
    ] {
        assert!(!set.owns("a", &forged), "{forged:?}");
    }
    let of_no_uid = OwnerKey { uid: "", ..set };
    assert!(
        !of_no_uid.owns(
            "a",
            &Reference {
                uid: "",
                ..reference
            }
        ),
        "an empty uid is no owner's"
    );
}

#[test]
fn cluster_scoped_owner_owns_in_every_namespace() {
    let kind = OwnerKind {
        group: "",
        kind: "Node",
        namespaced: false,
    };
    let node = OwnerKey {
        kind,
        namespace: "",
        uid: "u",
    };
    let reference = Reference {
        api_version: "v1",
        kind: "Node",
        name: "n",
        uid: "u",
    };
    assert!(node.owns("a", &reference) && node.owns("", &reference));
}
