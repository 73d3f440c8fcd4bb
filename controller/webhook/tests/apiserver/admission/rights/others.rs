//! Revisions, native budgets, nodes, and objects of the chart's release alone.

use berth_api::kinds::CLONE_SET;
use serde_json::{Value, json};

use super::world::{World, budget, named, of_budget};
use super::{ALLOWED, COLLECTED, FOR_REAL, PROTECTED, Row, Rows, Try};
use crate::stage::NAMESPACE;

pub(super) fn of_others(all: &mut Vec<Row>, world: &World) {
    let World {
        lease: held,
        replica,
        ..
    } = world;
    of_revisions(all, world);
    let (here, there) = ("default", "kube-system");
    let mut rows =
        |group: &'static str, version: &'static str, resource: &'static str, rows: Vec<Try<'_>>| {
            let mut of = Rows {
                all: &mut *all,
                group,
                version,
                resource,
            };
            rows.into_iter()
                .for_each(|(verb, at, what, body, says)| of.add(verb, at, what, body, says));
        };
    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let mut two = of_budget("v1beta1", "new");
    two.as_array_mut()
        .into_iter()
        .for_each(|owners| owners.push(second_owner()));
    let fewer = json!([{"op": "replace", "path": "/spec/minAvailable", "value": 0}]);
    rows(
        "policy",
        "v1",
        "poddisruptionbudgets",
        vec![
            (
                "create",
                (here, ""),
                "of a budget of its name",
                budget("new", &of_budget("v1beta1", "new")),
                ALLOWED,
            ),
            (
                "create",
                (here, ""),
                "of another name",
                budget("x", &of_budget("v1beta1", "new")),
                "may write those",
            ),
            (
                "create",
                (here, ""),
                "of a version that is not served",
                budget("new", &of_budget("v9", "new")),
                "may write those",
            ),
            (
                "create",
                (there, ""),
                "of a budget of its name",
                budget("new", &of_budget("v1beta1", "new")),
                PROTECTED,
            ),
            (
                "create",
                (here, ""),
                "of two owners",
                budget("new", &two),
                COLLECTED,
            ),
            (
                "create",
                (here, ""),
                "with a finalizer",
                kept(budget("new", &of_budget("v1beta1", "new"))),
                COLLECTED,
            ),
            ("patch", (here, "web"), "", fewer.clone(), ALLOWED),
            (
                "patch",
                (here, "theirs"),
                "",
                fewer.clone(),
                "may write those",
            ),
            ("patch", (there, "theirs"), "", fewer, PROTECTED),
            ("delete", (here, "web"), "", json!({}), ALLOWED),
            ("delete", (here, "theirs"), "", json!({}), "may write those"),
            ("delete", (there, "theirs"), "", json!({}), PROTECTED),
        ],
    );
    let template = json!({"metadata": {"generateName": "x-"}, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}});
    let templates = vec![
        (
            "create",
            (there, ""),
            "as a dry run",
            template.clone(),
            ALLOWED,
        ),
        (
            "create",
            (here, ""),
            FOR_REAL,
            template,
            "by dry runs alone",
        ),
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
            (
                "patch",
                ("", "n"),
                "its cordon",
                set("/spec/unschedulable", json!(false)),
                "of nodes kruise-manager",
            ),
        ],
    );
    let secret = |name: &str, kind: &str| {
        let mut secret = named(name, &json!([]), &json!({"type": kind}));
        secret["metadata"]["annotations"] =
            json!({"kubernetes.io/service-account.name": "kruise-manager"});
        secret
    };
    rows(
        "",
        "v1",
        "secrets",
        vec![
            (
                "create",
                (NAMESPACE, ""),
                "of another name",
                secret("x", "Opaque"),
                "of Secrets kruise-manager",
            ),
            (
                "create",
                (NAMESPACE, ""),
                "a token",
                secret(
                    "kruise-webhook-certs",
                    "kubernetes.io/service-account-token",
                ),
                "of Secrets kruise-manager",
            ),
            (
                "create",
                (NAMESPACE, ""),
                "",
                secret("kruise-webhook-certs", "Opaque"),
                ALLOWED,
            ),
            (
                "create",
                (NAMESPACE, ""),
                "with a finalizer",
                kept(secret("kruise-webhook-certs", "Opaque")),
                COLLECTED,
            ),
            (
                "update",
                (NAMESPACE, "kruise-webhook-certs"),
                "",
                secret("kruise-webhook-certs", "Opaque"),
                ALLOWED,
            ),
            (
                "update",
                (NAMESPACE, "x"),
                "",
                secret("x", "Opaque"),
                "cannot update resource",
            ),
        ],
    );
    let lease = |name: &str| named(name, &json!([]), &json!({"spec": {"holderIdentity": "y"}}));
    rows(
        "coordination.k8s.io",
        "v1",
        "leases",
        vec![
            (
                "create",
                (NAMESPACE, ""),
                "of another name",
                lease("x"),
                "of Leases kruise-manager",
            ),
            (
                "create",
                (NAMESPACE, ""),
                "",
                lease("kruise-manager"),
                ALLOWED,
            ),
            (
                "patch",
                (NAMESPACE, "x"),
                "",
                json!([]),
                "cannot patch resource",
            ),
            (
                "update",
                (NAMESPACE, "x"),
                "",
                lease("x"),
                "cannot update resource",
            ),
            (
                "patch",
                (NAMESPACE, "kruise-manager"),
                "",
                set("/spec/holderIdentity", json!("y")),
                ALLOWED,
            ),
            (
                "patch",
                (NAMESPACE, "kruise-manager"),
                "a finalizer",
                set("/metadata/finalizers", forever()),
                COLLECTED,
            ),
            (
                "update",
                (NAMESPACE, "kruise-manager"),
                "",
                held.clone(),
                ALLOWED,
            ),
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
            (
                "create",
                (NAMESPACE, ""),
                "in the name of its pod",
                slice(replica),
                ALLOWED,
            ),
            (
                "create",
                (NAMESPACE, ""),
                "in another pod's name",
                slice("u2"),
                "to which its token is bound",
            ),
            (
                "create",
                (NAMESPACE, ""),
                "with a finalizer",
                kept(slice(replica)),
                COLLECTED,
            ),
            (
                "delete",
                (NAMESPACE, "kruise-webhook-service-early-u"),
                "",
                json!({}),
                ALLOWED,
            ),
            (
                "delete",
                (NAMESPACE, "theirs"),
                "of Kubernetes",
                json!({}),
                "EndpointSlices kruise-manager may create",
            ),
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
            (
                "patch",
                ("", &crd),
                "its conversion",
                set("/spec/conversion", conversion),
                ALLOWED,
            ),
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
            (
                "patch",
                ("", &crd),
                "the end of a migration",
                set("/status/storedVersions", json!(["v1beta1"])),
                ALLOWED,
            ),
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
        (
            "mutatingwebhookconfigurations",
            "kruise-mutating-webhook-configuration",
        ),
        (
            "validatingwebhookconfigurations",
            "kruise-validating-webhook-configuration",
        ),
        (
            "validatingwebhookconfigurations",
            "kruise-budget-webhook-configuration",
        ),
    ] {
        rows(
            "admissionregistration.k8s.io",
            "v1",
            resource,
            vec![
                (
                    "patch",
                    ("", name),
                    "no entries",
                    set("/webhooks", json!([])),
                    ALLOWED,
                ),
                (
                    "patch",
                    ("", name),
                    "an address",
                    set("/webhooks", webhook.clone()),
                    "no other Service",
                ),
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
    let of_kinds = json!({"service": {"namespace": NAMESPACE, "name": "kruise-webhook-service", "path": "/validate/x", "port": 443}});
    let rule = json!({"apiGroups": ["apps.kruise.io"], "apiVersions": ["v1beta1"], "operations": ["CREATE"], "resources": ["clonesets"]});
    let entry = json!({"name": "validate.apps.kruise.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
                       "timeoutSeconds": 5, "clientConfig": of_kinds, "rules": [rule]});
    let mut of = Rows {
        all,
        group: "admissionregistration.k8s.io",
        version: "v1",
        resource: "validatingwebhookconfigurations",
    };
    let name = "kruise-validating-webhook-configuration";
    for (what, field, value, says) in [
        ("its entry", "/timeoutSeconds", json!(5), ALLOWED),
        (
            "a long wait",
            "/timeoutSeconds",
            json!(30),
            "objects of its own kinds",
        ),
        (
            "subresources",
            "/rules/0/resources",
            json!(["*/*"]),
            "objects of its own kinds",
        ),
        (
            "another group",
            "/rules/0/apiGroups",
            json!(["apps"]),
            "objects of its own kinds",
        ),
        (
            "writes that wait for it",
            "/failurePolicy",
            json!("Fail"),
            "objects of its own kinds",
        ),
        (
            "another port",
            "/clientConfig/service/port",
            json!(9443),
            "no other Service",
        ),
    ] {
        let mut entry = entry.clone();
        if let Some(place) = entry.pointer_mut(field) {
            *place = value;
        }
        of.add(
            "patch",
            ("", name),
            what,
            set("/webhooks", json!([entry])),
            says,
        );
    }
}

/// A finalizer that no program removes.
fn forever() -> Value {
    json!(["thief.example/forever"])
}

/// An owner that exists, so that the object stays when its controller is gone.
pub(super) fn second_owner() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "u"})
}

/// The object, which stays when its owner is gone.
pub(super) fn kept(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = forever();
    object
}

fn of_revisions(
    all: &mut Vec<Row>,
    World {
        owner,
        united: [united, united_there],
        sidecars,
        ..
    }: &World,
) {
    let (here, there) = ("default", "kube-system");
    let mut of = Rows {
        all,
        group: "apps",
        version: "v1",
        resource: "controllerrevisions",
    };
    let revision = |owners: Value| named("new", &owners, &json!({"revision": 1, "data": {}}));
    let alone = "alone controls, before and after";
    let map = second_owner();
    for (namespace, what, object, says) in [
        (here, "of a CloneSet", revision(json!([owner])), ALLOWED),
        (
            here,
            "of a UnitedDeployment",
            revision(json!([united])),
            ALLOWED,
        ),
        (here, "without an owner", revision(json!([])), alone),
        (
            here,
            "of two owners",
            revision(json!([owner, map])),
            COLLECTED,
        ),
        (here, "of a SidecarSet", revision(json!([sidecars])), alone),
        (
            here,
            "with a finalizer",
            kept(revision(json!([owner]))),
            COLLECTED,
        ),
        (there, "of a CloneSet", revision(json!([owner])), PROTECTED),
        (
            there,
            "of a UnitedDeployment",
            revision(json!([united_there])),
            PROTECTED,
        ),
        (
            NAMESPACE,
            "of a SidecarSet",
            revision(json!([sidecars])),
            ALLOWED,
        ),
        (NAMESPACE, "of a CloneSet", revision(json!([owner])), alone),
    ] {
        of.add("create", (namespace, ""), what, object, says);
    }
    let number = json!([{"op": "replace", "path": "/revision", "value": 2}]);
    let owners = |owners: Value| json!([{"op": "add", "path": "/metadata/ownerReferences", "value": owners}]);
    let finalizers = json!([{"op": "add", "path": "/metadata/finalizers", "value": forever()}]);
    for (namespace, name, what, patch, says) in [
        (here, "ours", "its number", number.clone(), ALLOWED),
        (here, "ours", "its release", owners(json!([])), alone),
        (
            here,
            "ours",
            "another owner",
            owners(json!([united])),
            alone,
        ),
        (
            here,
            "ours",
            "one more owner",
            owners(json!([owner, map])),
            alone,
        ),
        (here, "ours", "a finalizer", finalizers, COLLECTED),
        (here, "united", "its number", number.clone(), ALLOWED),
        (here, "united", "its release", owners(json!([])), alone),
        (
            here,
            "orphan",
            "its adoption",
            owners(json!([owner])),
            ALLOWED,
        ),
        (
            here,
            "orphan",
            "its adoption by two",
            owners(json!([owner, map])),
            alone,
        ),
        (here, "orphan", "its number", number.clone(), alone),
        (here, "theirs", "its number", number.clone(), alone),
        (there, "ours", "its number", number.clone(), PROTECTED),
        (
            there,
            "theirs",
            "its adoption",
            owners(json!([owner])),
            PROTECTED,
        ),
        (NAMESPACE, "sidecars", "its number", number.clone(), ALLOWED),
        (
            NAMESPACE,
            "sidecars",
            "its release",
            owners(json!([])),
            alone,
        ),
        (
            NAMESPACE,
            "orphan",
            "its adoption",
            owners(json!([sidecars])),
            alone,
        ),
        (NAMESPACE, "theirs", "its number", number, alone),
    ] {
        of.add("patch", (namespace, name), what, patch, says);
    }
    for (namespace, name, says) in [
        (here, "ours", ALLOWED),
        (here, "united", ALLOWED),
        (here, "orphan", alone),
        (here, "theirs", alone),
        (there, "theirs", PROTECTED),
        (NAMESPACE, "sidecars", ALLOWED),
        (NAMESPACE, "theirs", alone),
    ] {
        of.add("delete", (namespace, name), "", json!({}), says);
    }
}
