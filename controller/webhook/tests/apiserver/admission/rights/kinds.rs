//! Berth's own kinds.

use berth_api::kinds::KINDS;
use serde_json::{Value, json};

use super::others::{kept, second_owner};
use super::world::{World, own_object, spec, state_of};
use super::{ALLOWED, COLLECTED, FOR_REAL, PROTECTED, Row, Rows};

pub(super) fn of_kinds(all: &mut Vec<Row>, World { owner, .. }: &World) {
    for kind in &KINDS {
        let (version, namespace) = (
            kind.stored.name(),
            if kind.namespaced { "default" } else { "" },
        );
        let statuses = format!("{}/status", kind.plural);
        let mut of = Rows {
            all: &mut *all,
            group: kind.group,
            version,
            resource: kind.plural,
        };
        let note = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}]);
        let says = if kind.kind == "PersistentPodState" {
            "kruise-manager may"
        } else {
            "of the metadata of"
        };
        of.add("patch", (namespace, "web"), "an owner", note, says);
        of.add("patch", (namespace, "web"), "nothing", json!([]), ALLOWED);
        let is_free = matches!(
            kind.kind,
            "BroadcastJob"
                | "ImageListPullJob"
                | "ContainerRecreateRequest"
                | "ImagePullJob"
                | "NodeImage"
        );
        if is_free {
            of.add("delete", (namespace, "web"), "", json!({}), ALLOWED);
        }
        let object = |name: &str, spec: Value| own_object(kind, name, spec);
        match kind.kind {
            "BroadcastJob" => of.add(
                "delete",
                (namespace, "kept"),
                "without a time to live",
                json!({}),
                "ttlSecondsAfterFinished alone",
            ),
            "ImagePullJob" => {
                of.add(
                    "create",
                    (namespace, ""),
                    "without an owner",
                    object("x", spec(kind)),
                    "ImagePullJobs that a",
                );
                let mut job = object("x", spec(kind));
                job["metadata"]["ownerReferences"] = json!([owner]);
                of.add(
                    "create",
                    (namespace, ""),
                    "of a CloneSet",
                    job.clone(),
                    ALLOWED,
                );
                of.add(
                    "create",
                    (namespace, ""),
                    "with a finalizer",
                    kept(job.clone()),
                    COLLECTED,
                );
                job["metadata"]["ownerReferences"] = json!([owner, second_owner()]);
                of.add("create", (namespace, ""), "of two owners", job, COLLECTED);
            }
            "NodeImage" => {
                let pulls = json!({"images": {"web": {"tags": [{"tag": "1"}]}}});
                of.add(
                    "create",
                    ("", ""),
                    "that pulls, as the proof of conversion",
                    object("x", pulls.clone()),
                    ALLOWED,
                );
                of.add(
                    "create",
                    ("", ""),
                    FOR_REAL,
                    object("x", pulls),
                    "NodeImages that pull nothing yet",
                );
                let stop = json!([{"request": "x", "namespace": "kube-system", "name": "p", "uid": "u", "container": "c", "containerID": "a", "gracePeriodSeconds": 0}]);
                let stop = json!([{"op": "add", "path": "/spec/stopContainers", "value": stop}]);
                of.add(
                    "patch",
                    ("", "web"),
                    "a stop in a protected namespace",
                    stop,
                    PROTECTED,
                );
                let inspect = |namespace: &str| {
                    let pod = json!({"namespace": namespace, "name": "p", "uid": "u"});
                    json!([{"op": "add", "path": "/spec/inspectPods", "value": [pod]}])
                };
                of.add(
                    "patch",
                    ("", "web"),
                    "an inspection",
                    inspect("default"),
                    ALLOWED,
                );
                of.add(
                    "patch",
                    ("", "web"),
                    "one in a protected namespace",
                    inspect("kube-system"),
                    PROTECTED,
                );
            }
            "ContainerRecreateRequest" => {
                let filled = |name: &str, pod: &str| {
                    let context = json!({"containerID": "containerd://a", "restartCount": 0});
                    json!([{"op": "add", "path": "/spec/containers", "value": [{"name": name, "statusContext": context}]},
                           {"op": "add", "path": "/spec/podName", "value": pod}])
                };
                let says = "of the spec of containerrecreaterequests";
                of.add(
                    "patch",
                    (namespace, "web"),
                    "what it copies from its pod",
                    filled("main", "ours"),
                    ALLOWED,
                );
                of.add(
                    "patch",
                    (namespace, "web"),
                    "another container",
                    filled("other", "ours"),
                    says,
                );
                of.add(
                    "patch",
                    (namespace, "web"),
                    "another pod",
                    filled("main", "theirs"),
                    says,
                );
            }
            "PersistentPodState" => {
                of.add(
                    "create",
                    (namespace, ""),
                    "without an owner",
                    object("x", spec(kind)),
                    "PersistentPodStates that their workload",
                );
                of.add(
                    "create",
                    (namespace, ""),
                    "of its workload",
                    state_of("new", &json!("u")),
                    ALLOWED,
                );
                of.add(
                    "delete",
                    (namespace, "web"),
                    "without an owner",
                    json!({}),
                    "may delete no",
                );
                of.add(
                    "delete",
                    (namespace, "db"),
                    "of its workload",
                    json!({}),
                    ALLOWED,
                );
                of_states(&mut of);
            }
            _ => {}
        }
        // No policy checks the statuses of our kinds: their schemas bound them.
        of.resource = &statuses;
        of.add("patch", (namespace, "web"), "", json!([]), ALLOWED);
    }
}

/// PersistentPodStates of a protected namespace, and those of a StatefulSet that became one of
/// another group.
fn of_states(of: &mut Rows<'_>) {
    let (here, there) = ("default", "kube-system");
    let says = "PersistentPodStates that their workload";
    of.add(
        "create",
        (here, ""),
        "with a finalizer",
        kept(state_of("new", &json!("u"))),
        COLLECTED,
    );
    of.add(
        "create",
        (there, ""),
        "of its workload",
        state_of("new", &json!("u")),
        says,
    );
    of.add(
        "delete",
        (there, "db"),
        "of its workload",
        json!({}),
        "may delete no",
    );
    let keys =
        json!({"op": "add", "path": "/spec/requiredPersistentTopology/keys", "value": ["zone"]});
    of.add("patch", (here, "db"), "other keys", json!([keys]), ALLOWED);
    of.add(
        "patch",
        (there, "db"),
        "other keys",
        json!([keys]),
        "of the spec of",
    );
    let ours = json!("apps.kruise.io/v1beta1");
    let heir = json!([{"apiVersion": ours, "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true}]);
    let mut handed = vec![
        json!({"op": "add", "path": "/metadata/ownerReferences", "value": heir}),
        json!({"op": "add", "path": "/spec/targetRef/apiVersion", "value": ours}),
    ];
    of.add("patch", (here, "web"), "its heir", json!(handed), ALLOWED);
    of.add(
        "patch",
        (there, "web"),
        "its heir",
        json!(handed),
        "of the metadata of",
    );
    handed.push(keys);
    of.add(
        "patch",
        (here, "web"),
        "its heir and other keys",
        json!(handed),
        "of the metadata of",
    );
}
