//! Pods, claims and barriers.

use serde_json::{Value, json};

use super::others::kept;
use super::world::{World, claim, named, pod};
use super::{ALLOWED, COLLECTED, PROTECTED, Row, Rows, Try};
use crate::stage::NAMESPACE;

pub(super) fn of_pods(
    all: &mut Vec<Row>,
    World {
        owner, pod: ours, ..
    }: &World,
) {
    let owners = json!([owner]);
    let (here, there) = ("default", "kube-system");
    let mut rows = |resource: &'static str, rows: Vec<Try<'_>>| {
        let mut of = Rows {
            all: &mut *all,
            group: "",
            version: "v1",
            resource,
        };
        rows.into_iter()
            .for_each(|(verb, at, what, body, says)| of.add(verb, at, what, body, says));
    };
    let mut unserved = owner.clone();
    unserved["apiVersion"] = json!("apps.kruise.io/v9");
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "web:2"}]);
    let label = json!([{"op": "add", "path": "/metadata/labels", "value": {"pod-template-hash": "released-x"}}]);
    let of_subset = |key: &str| json!({"op": "add", "path": format!("/metadata/labels/{key}"), "value": "true"});
    let reserved = json!([of_subset("apps.kruise.io~1united-deployment-reserved-pod")]);
    let annotation = json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}});
    let tolerate = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}]);
    rows(
        "pods",
        vec![
            (
                "create",
                (here, ""),
                "of a CloneSet",
                pod("new", &owners),
                ALLOWED,
            ),
            (
                "create",
                (here, ""),
                "without an owner",
                pod("new", &json!([])),
                "controls",
            ),
            (
                "create",
                (here, ""),
                "of a version that is not served",
                pod("new", &json!([unserved])),
                "controls",
            ),
            (
                "create",
                (there, ""),
                "of a CloneSet",
                pod("new", &owners),
                PROTECTED,
            ),
            ("patch", (here, "ours"), "an image", image.clone(), ALLOWED),
            (
                "patch",
                (here, "ours"),
                "a toleration",
                tolerate,
                "its containers alone",
            ),
            (
                "patch",
                (here, "theirs"),
                "an image",
                image.clone(),
                "controls",
            ),
            (
                "patch",
                (here, "theirs"),
                "a label of its release",
                label,
                "controls",
            ),
            (
                "patch",
                (there, "ours"),
                "an image",
                image.clone(),
                PROTECTED,
            ),
            (
                "patch",
                (here, "of-deployment"),
                "the label of reserved pods",
                reserved.clone(),
                ALLOWED,
            ),
            (
                "patch",
                (here, "stuck-0"),
                "the label of reserved pods",
                reserved.clone(),
                ALLOWED,
            ),
            (
                "patch",
                (here, "plain-0"),
                "the label of reserved pods",
                reserved.clone(),
                "controls",
            ),
            (
                "patch",
                (there, "stuck-0"),
                "the label of reserved pods",
                reserved.clone(),
                PROTECTED,
            ),
            (
                "patch",
                (here, "of-deployment"),
                "another label",
                json!([of_subset("a")]),
                "controls",
            ),
            (
                "patch",
                (here, "of-deployment"),
                "an annotation, too",
                json!([reserved[0], annotation]),
                "controls",
            ),
            (
                "patch",
                (here, "of-deployment"),
                "an image",
                image.clone(),
                "controls",
            ),
            ("delete", (here, "ours"), "", json!({}), ALLOWED),
            (
                "delete",
                (here, "stuck-0"),
                "of a subset's StatefulSet",
                json!({}),
                ALLOWED,
            ),
            (
                "delete",
                (here, "ready-0"),
                "of a subset's StatefulSet that does not wait for it",
                json!({}),
                "controls",
            ),
            (
                "delete",
                (here, "plain-0"),
                "of a StatefulSet, without the label of a revision",
                json!({}),
                "controls",
            ),
            (
                "delete",
                (here, "of-deployment"),
                "of a subset that is none",
                json!({}),
                "controls",
            ),
            ("delete", (here, "theirs"), "", json!({}), "controls"),
            ("delete", (there, "ours"), "", json!({}), PROTECTED),
            (
                "delete",
                (there, "stuck-0"),
                "of a subset's StatefulSet",
                json!({}),
                PROTECTED,
            ),
        ],
    );
    let status =
        |status: Value| json!([{"op": "add", "path": "/status/conditions/-", "value": status}]);
    let closed = status(json!({"type": "InPlaceUpdateReady", "status": "False"}));
    let address = json!([{"op": "add", "path": "/status/podIP", "value": "10.0.0.99"}]);
    rows(
        "pods/status",
        vec![
            (
                "patch",
                (here, "ours"),
                "a condition of ours",
                closed.clone(),
                ALLOWED,
            ),
            (
                "patch",
                (here, "ours"),
                "another condition",
                status(json!({"type": "x", "status": "True"})),
                "may write the conditions",
            ),
            (
                "patch",
                (here, "ours"),
                "its address",
                address,
                "may write the conditions",
            ),
            (
                "patch",
                (here, "theirs"),
                "a condition of ours",
                closed.clone(),
                "may write conditions of pods that",
            ),
            (
                "patch",
                (there, "ours"),
                "a condition of ours",
                closed,
                PROTECTED,
            ),
        ],
    );
    let more = json!([{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "20m"}]);
    rows(
        "pods/resize",
        vec![
            ("patch", (here, "ours"), "", more.clone(), ALLOWED),
            ("patch", (here, "theirs"), "", more.clone(), "controls"),
            ("patch", (there, "ours"), "", more, PROTECTED),
        ],
    );
    let evict = |preconditions: Value| {
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ours"},
               "deleteOptions": {"preconditions": preconditions, "dryRun": ["All"]}})
    };
    let uid = json!({"uid": ours["metadata"]["uid"]});
    rows(
        "pods/eviction",
        vec![
            (
                "create",
                (here, "ours"),
                "by its uid",
                evict(uid.clone()),
                ALLOWED,
            ),
            (
                "create",
                (here, "ours"),
                "by its name",
                evict(json!({})),
                "by its uid",
            ),
            (
                "create",
                (there, "ours"),
                "by its uid",
                evict(uid),
                PROTECTED,
            ),
        ],
    );
    let mut allowed = claim("data-db-9", &json!([]));
    allowed["metadata"]["annotations"] = json!({"apps.kruise.io/owned-by-asts": "db"});
    let false_owner = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [
        {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "gone"}]}]);
    let consent = json!([{"op": "add", "path": "/metadata/annotations", "value": {"apps.kruise.io/owned-by-asts": "db"}}]);
    let label = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    let forever =
        json!([{"op": "add", "path": "/metadata/finalizers", "value": ["thief.example/forever"]}]);
    rows(
        "persistentvolumeclaims",
        vec![
            (
                "create",
                (here, ""),
                "of a StatefulSet",
                allowed.clone(),
                ALLOWED,
            ),
            (
                "create",
                (here, ""),
                "of any name",
                claim("x", &json!([])),
                "claims of StatefulSets",
            ),
            (
                "create",
                (here, ""),
                "with a finalizer",
                kept(allowed.clone()),
                COLLECTED,
            ),
            (
                "create",
                (there, ""),
                "of a StatefulSet",
                allowed,
                PROTECTED,
            ),
            (
                "patch",
                (here, "data-db-0"),
                "a finalizer",
                forever.clone(),
                COLLECTED,
            ),
            (
                "patch",
                (here, "ours"),
                "a finalizer",
                forever.clone(),
                COLLECTED,
            ),
            ("patch", (here, "ours"), "a label", label.clone(), ALLOWED),
            (
                "patch",
                (here, "data-db-0"),
                "an owner that is gone",
                false_owner.clone(),
                "claims of StatefulSets",
            ),
            (
                "patch",
                (here, "data-db-0"),
                "what allows an owner",
                consent,
                "claims of StatefulSets",
            ),
            (
                "patch",
                (there, "data-db-0"),
                "an owner that is gone",
                false_owner,
                PROTECTED,
            ),
            ("delete", (here, "ours"), "", json!({}), ALLOWED),
            (
                "delete",
                (here, "data-db-0"),
                "",
                json!({}),
                "claims of StatefulSets",
            ),
            ("delete", (there, "ours"), "", json!({}), PROTECTED),
        ],
    );
    let its_pod = json!([{"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "u"}]);
    let data = json!([{"op": "add", "path": "/data", "value": {"a": "b"}}]);
    rows(
        "configmaps",
        vec![
            (
                "create",
                (here, ""),
                "of a pod",
                named("new-barrier", &its_pod, &json!({})),
                ALLOWED,
            ),
            (
                "create",
                (here, ""),
                "without an owner",
                named("new-barrier", &json!([]), &json!({})),
                "which its pod owns",
            ),
            (
                "create",
                (there, ""),
                "of a pod",
                named("new-barrier", &its_pod, &json!({})),
                "which its pod owns",
            ),
            (
                "create",
                (here, ""),
                "with a finalizer",
                kept(named("new-barrier", &its_pod, &json!({}))),
                COLLECTED,
            ),
            ("patch", (here, "ours-barrier"), "", data.clone(), ALLOWED),
            (
                "patch",
                (here, "ours-barrier"),
                "a finalizer",
                forever,
                COLLECTED,
            ),
            ("patch", (NAMESPACE, "kruise-ca"), "", data.clone(), ALLOWED),
            (
                "patch",
                (here, "theirs"),
                "",
                data.clone(),
                "which its pod owns",
            ),
            ("patch", (there, "theirs"), "", data, "which its pod owns"),
        ],
    );
}
