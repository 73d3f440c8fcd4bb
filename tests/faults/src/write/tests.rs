use super::*;

fn read(method: &str, uri: &str) -> Option<(String, String)> {
    let write = Write::of(&method.parse().unwrap(), &uri.parse().unwrap())?;
    Some((write.to_string(), write.namespace))
}

#[test]
fn a_request_that_changes_an_object_is_a_write() {
    for (method, uri, says, namespace) in [
        (
            "POST",
            "/api/v1/namespaces/a/pods?timeout=5s",
            "POST pods",
            "a",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/a/pods/web-1/status?timeout=5s",
            "PATCH pods/status web-1",
            "a",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods/web-1",
            "DELETE pods web-1",
            "a",
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/a/controllerrevisions",
            "POST controllerrevisions",
            "a",
        ),
        (
            "PATCH",
            "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets/web/status",
            "PATCH clonesets/status web",
            "a",
        ),
        (
            "PATCH",
            "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets/web",
            "PATCH clonesets web",
            "a",
        ),
        (
            "PATCH",
            "/apis/apps.kruise.io/v1beta1/nodeimages/node-1",
            "PATCH nodeimages node-1",
            "",
        ),
    ] {
        assert_eq!(
            read(method, uri),
            Some((says.to_owned(), namespace.to_owned())),
            "{method} {uri}"
        );
    }
}

#[test]
fn reads_dry_runs_and_upkeep_are_no_writes() {
    for (method, uri) in [
        ("GET", "/api/v1/namespaces/a/pods"),
        ("POST", "/api/v1/namespaces/a/podtemplates?dryRun=All"),
        (
            "POST",
            "/api/v1/namespaces/a/pods?fieldManager=x&dryRun=All",
        ),
        ("POST", "/api/v1/namespaces/a/events"),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/kruise-manager",
        ),
        ("POST", "/api/v1/namespaces/a/secrets"),
        (
            "PATCH",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.apps.kruise.io",
        ),
        ("POST", "/api/v1/namespaces"),
        ("PATCH", "/api/v1/namespaces/pods"),
    ] {
        assert_eq!(read(method, uri), None, "{method} {uri}");
    }
}
