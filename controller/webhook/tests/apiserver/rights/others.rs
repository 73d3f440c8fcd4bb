//! Revisions, native budgets, nodes, and what is of the release alone.

use berth_api::kinds::CLONE_SET;
use serde_json::{Value, json};

use super::world::{World, budget, named, of_budget};
use super::{ALLOWED, FOR_REAL, PROTECTED, Row, Rows, Try};
use crate::stage::NAMESPACE;

pub(super) fn of_others(all: &mut Vec<Row>, World { owner, lease: held, replica, .. }: &World) {
    let owners = json!([owner]);
    let (here, there) = ("default", "kube-system");
    let mut rows = |group: &'static str, version: &'static str, resource: &'static str, rows: Vec<Try<'_>>| {
        let mut of = Rows { all: &mut *all, group, version, resource };
        rows.into_iter().for_each(|(verb, at, what, body, says)| of.add(verb, at, what, body, says));
    };
    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let revision = |owners: &Value| named("new", owners, &json!({"revision": 1, "data": {}}));
    let number = json!([{"op": "replace", "path": "/revision", "value": 2}]);
    rows(
        "apps",
        "v1",
        "controllerrevisions",
        vec![
            ("create", (here, ""), "of a CloneSet", revision(&owners), ALLOWED),
            ("create", (here, ""), "of nobody", revision(&json!([])), "controls"),
            ("patch", (here, "ours"), "", number.clone(), ALLOWED),
            ("patch", (here, "theirs"), "", number.clone(), "controls"),
            ("patch", (there, "theirs"), "", number, "controls"),
            ("delete", (here, "ours"), "", json!({}), ALLOWED),
            ("delete", (there, "theirs"), "", json!({}), "controls"),
        ],
    );
    let fewer = json!([{"op": "replace", "path": "/spec/minAvailable", "value": 0}]);
    rows(
        "policy",
        "v1",
        "poddisruptionbudgets",
        vec![
            ("create", (here, ""), "of a budget of its name", budget("new", &of_budget("v1beta1", "new")), ALLOWED),
            ("create", (here, ""), "of another name", budget("x", &of_budget("v1beta1", "new")), "may write those"),
            (
                "create",
                (here, ""),
                "of a version that is not served",
                budget("new", &of_budget("v9", "new")),
                "may write those",
            ),
            ("create", (there, ""), "of a budget of its name", budget("new", &of_budget("v1beta1", "new")), PROTECTED),
            ("patch", (here, "web"), "", fewer.clone(), ALLOWED),
            ("patch", (here, "theirs"), "", fewer.clone(), "may write those"),
            ("patch", (there, "theirs"), "", fewer, PROTECTED),
            ("delete", (here, "web"), "", json!({}), ALLOWED),
            ("delete", (here, "theirs"), "", json!({}), "may write those"),
            ("delete", (there, "theirs"), "", json!({}), PROTECTED),
        ],
    );
    let template = json!({"metadata": {"generateName": "x-"}, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}});
    let templates = vec![
        ("create", (there, ""), "as a dry run", template.clone(), ALLOWED),
        ("create", (here, ""), FOR_REAL, template, "by dry runs alone"),
    ];
    rows("", "v1", "podtemplates", templates);
    rows(
        "",
        "v1",
        "nodes",
        vec![
            (
                "patch",
                ("", "n"),
                "the taint of images",
                json!([{"op": "test", "path": "/spec/taints/0/key", "value": "apps.kruise.io/images-not-ready"},
                       {"op": "remove", "path": "/spec/taints/0"}]),
                ALLOWED,
            ),
            ("patch", ("", "n"), "its cordon", set("/spec/unschedulable", json!(false)), "of nodes kruise-manager"),
        ],
    );
    let secret = |name: &str, kind: &str| {
        let mut secret = named(name, &json!([]), &json!({"type": kind}));
        secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "kruise-manager"});
        secret
    };
    rows(
        "",
        "v1",
        "secrets",
        vec![
            ("create", (NAMESPACE, ""), "of another name", secret("x", "Opaque"), "of Secrets kruise-manager"),
            (
                "create",
                (NAMESPACE, ""),
                "a token",
                secret("kruise-webhook-certs", "kubernetes.io/service-account-token"),
                "of Secrets kruise-manager",
            ),
            ("create", (NAMESPACE, ""), "", secret("kruise-webhook-certs", "Opaque"), ALLOWED),
            ("update", (NAMESPACE, "kruise-webhook-certs"), "", secret("kruise-webhook-certs", "Opaque"), ALLOWED),
            ("update", (NAMESPACE, "x"), "", secret("x", "Opaque"), "cannot update resource"),
        ],
    );
    let lease = |name: &str| named(name, &json!([]), &json!({"spec": {"holderIdentity": "y"}}));
    rows(
        "coordination.k8s.io",
        "v1",
        "leases",
        vec![
            ("create", (NAMESPACE, ""), "of another name", lease("x"), "of Leases kruise-manager"),
            ("create", (NAMESPACE, ""), "", lease("kruise-manager"), ALLOWED),
            ("patch", (NAMESPACE, "x"), "", json!([]), "cannot patch resource"),
            ("update", (NAMESPACE, "x"), "", lease("x"), "cannot update resource"),
            ("patch", (NAMESPACE, "kruise-manager"), "", set("/spec/holderIdentity", json!("y")), ALLOWED),
            ("update", (NAMESPACE, "kruise-manager"), "", held.clone(), ALLOWED),
        ],
    );
    let slice = |uid: &str| {
        json!({
            "metadata": {"name": format!("kruise-webhook-service-early-{uid}"),
                         "labels": {"kubernetes.io/service-name": "kruise-webhook-service"},
                         "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "replica", "uid": uid}]},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
        })
    };
    rows(
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        vec![
            ("create", (NAMESPACE, ""), "in the name of its pod", slice(replica), ALLOWED),
            ("create", (NAMESPACE, ""), "in another pod's name", slice("u2"), "to which its token is bound"),
            ("delete", (NAMESPACE, "kruise-webhook-service-early-u"), "", json!({}), ALLOWED),
            ("delete", (NAMESPACE, "theirs"), "of Kubernetes", json!({}), "EndpointSlices kruise-manager may create"),
        ],
    );
    let crd = CLONE_SET.crd();
    let service = json!({"namespace": NAMESPACE, "name": "kruise-webhook-service", "path": "/convert", "port": 443});
    let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}});
    rows(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        vec![
            ("patch", ("", &crd), "its conversion", set("/spec/conversion", conversion), ALLOWED),
            (
                "patch",
                ("", &crd),
                "its versions",
                set("/spec/versions/0/served", json!(false)),
                "may write spec.conversion",
            ),
        ],
    );
    rows(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions/status",
        vec![
            ("patch", ("", &crd), "the end of a migration", set("/status/storedVersions", json!(["v1beta1"])), ALLOWED),
            (
                "patch",
                ("", &crd),
                "its conditions",
                set("/status/conditions", json!([])),
                "storedVersions, to v1beta1 alone",
            ),
        ],
    );
    let webhook = json!([{"name": "x.y.z", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://x.y/"}}]);
    for (resource, name) in [
        ("mutatingwebhookconfigurations", "kruise-mutating-webhook-configuration"),
        ("validatingwebhookconfigurations", "kruise-validating-webhook-configuration"),
        ("validatingwebhookconfigurations", "kruise-budget-webhook-configuration"),
    ] {
        rows(
            "admissionregistration.k8s.io",
            "v1",
            resource,
            vec![
                ("patch", ("", name), "no entries", set("/webhooks", json!([])), ALLOWED),
                ("patch", ("", name), "an address", set("/webhooks", webhook.clone()), "no other Service"),
                (
                    "patch",
                    ("", name),
                    "a label",
                    set("/metadata/labels/a", json!("b")),
                    "of webhook configurations kruise-manager",
                ),
            ],
        );
    }
}
