//! Berth's own kinds.

use berth_api::kinds::KINDS;
use serde_json::{Value, json};

use super::world::{World, own_object, spec, state_of};
use super::{ALLOWED, FOR_REAL, PROTECTED, Row, Rows};

pub(super) fn of_kinds(all: &mut Vec<Row>, World { owner, .. }: &World) {
    for kind in &KINDS {
        let (version, namespace) = (kind.stored.name(), if kind.namespaced { "default" } else { "" });
        let statuses = format!("{}/status", kind.plural);
        let mut of = Rows { all: &mut *all, group: kind.group, version, resource: kind.plural };
        let note = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}]);
        let says = if kind.kind == "PersistentPodState" { "kruise-manager may" } else { "of the metadata of" };
        of.add("patch", (namespace, "web"), "an owner", note, says);
        of.add("patch", (namespace, "web"), "nothing", json!([]), ALLOWED);
        let is_free = matches!(
            kind.kind,
            "BroadcastJob" | "ImageListPullJob" | "ContainerRecreateRequest" | "ImagePullJob" | "NodeImage"
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
                of.add("create", (namespace, ""), "of nobody", object("x", spec(kind)), "ImagePullJobs that a");
                let mut job = object("x", spec(kind));
                job["metadata"]["ownerReferences"] = json!([owner]);
                of.add("create", (namespace, ""), "of a CloneSet", job, ALLOWED);
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
                of.add("create", ("", ""), FOR_REAL, object("x", pulls), "NodeImages that pull nothing yet");
                let stop = json!([{"request": "x", "namespace": "kube-system", "name": "p", "uid": "u", "container": "c", "containerID": "a", "gracePeriodSeconds": 0}]);
                let stop = json!([{"op": "add", "path": "/spec/stopContainers", "value": stop}]);
                of.add("patch", ("", "web"), "a stop in a protected namespace", stop, PROTECTED);
            }
            "PersistentPodState" => {
                of.add(
                    "create",
                    (namespace, ""),
                    "of nobody",
                    object("x", spec(kind)),
                    "PersistentPodStates that their workload",
                );
                of.add("create", (namespace, ""), "of its workload", state_of("new", &json!("u")), ALLOWED);
                of.add("delete", (namespace, "web"), "of nobody", json!({}), "may delete no");
                of.add("delete", (namespace, "db"), "of its workload", json!({}), ALLOWED);
            }
            _ => {}
        }
        // No policy looks at the statuses of our kinds: their schemas bound them, and no field of them is anybody else's.
        of.resource = &statuses;
        of.add("patch", (namespace, "web"), "", json!([]), ALLOWED);
    }
}
