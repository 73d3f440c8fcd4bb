use super::resource_of;

#[test]
fn resources_of_paths() {
    for (path, resource) in [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/a/pods/b/status", "pods"),
        ("/api/v1/namespaces/a", "namespaces"),
        (
            "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets/b",
            "clonesets",
        ),
        ("/apis/apps.kruise.io/v1beta1/nodeimages/b", "nodeimages"),
        ("/apis/apps.kruise.io", ""),
        ("/api/v1/namespaces/a/xxxxxxxxxxxx/podtemplates", "other"),
        ("/apis/apps.kruise.io/v1beta1/unknown", "other"),
        ("/version", ""),
        ("/", ""),
    ] {
        assert_eq!(resource_of(path), resource, "{path}");
    }
}
