use super::*;

#[test]
fn paths() {
    assert_eq!(PODS.collection("").unwrap(), "/api/v1/pods");
    assert_eq!(PODS.path("a", "b").unwrap(), "/api/v1/namespaces/a/pods/b");
    assert_eq!(NODES.path("", "n").unwrap(), "/api/v1/nodes/n");
    assert_eq!(
        CLONE_SETS.path("a", "b").unwrap(),
        "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets/b"
    );
    assert_eq!(
        NODE_IMAGES.path("ignored", "n").unwrap(),
        "/apis/apps.kruise.io/v1beta1/nodeimages/n"
    );
    assert_eq!(
        (PODS.api_version(), LEASES.api_version()),
        ("v1".into(), "coordination.k8s.io/v1".into())
    );
}

#[test]
fn path_refuses_names_with_url_characters() {
    for text in ["victim/podtemplates#", "a/b", "a?b", "a%2fb", ".."] {
        assert!(POD_TEMPLATES.collection(text).is_err(), "{text:?}");
        assert!(
            PODS.path(text, "b").is_err() && PODS.path("a", text).is_err(),
            "{text:?}"
        );
        assert!(NODES.path("", text).is_err(), "{text:?}");
    }
    assert!(PODS.path("a", "").is_err(), "this would be the path of all");
}

#[test]
fn an_owner_kind_is_that_of_its_resource() {
    use crate::objects::owner::{CLONE_SET, POD};
    for (resource, kind) in [(CLONE_SETS, CLONE_SET), (PODS, POD)] {
        assert_eq!(resource.owner_kind(), kind);
    }
}
