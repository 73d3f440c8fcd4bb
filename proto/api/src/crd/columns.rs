//! The columns of `kubectl get`: OpenKruise's, in its order.

use serde_json::{Value, json};

use crate::names::V1ALPHA1;

const AGE: (&str, &str, &str, &str) = ("AGE", "date", ".metadata.creationTimestamp", "Time since the creation.");

/// Name, type, path and description of each.
const CLONESET: [(&str, &str, &str, &str); 7] = [
    ("DESIRED", "integer", ".spec.replicas", "Pods that are wanted."),
    ("UPDATED", "integer", ".status.updatedReplicas", "Pods of the update revision."),
    ("UPDATED_READY", "integer", ".status.updatedReadyReplicas", "Pods of the update revision that are ready."),
    (
        "UPDATED_AVAILABLE",
        "integer",
        ".status.updatedAvailableReplicas",
        "Pods of the update revision that are available.",
    ),
    ("READY", "integer", ".status.readyReplicas", "Pods that are ready."),
    ("TOTAL", "integer", ".status.replicas", "Pods that exist."),
    AGE,
];

/// The columns that only `kubectl get -o wide` shows.
const CLONESET_WIDE: [(&str, &str, &str, &str); 3] = [
    ("CONTAINERS", "string", ".spec.template.spec.containers[*].name", "The template's containers."),
    ("IMAGES", "string", ".spec.template.spec.containers[*].image", "The template's images."),
    ("SELECTOR", "string", ".status.labelSelector", "The selector of the pods."),
];

const IMAGEPULLJOB: [(&str, &str, &str, &str); 5] = [
    ("TOTAL", "integer", ".status.desired", "Nodes that shall pull."),
    ("ACTIVE", "integer", ".status.active", "Nodes that are pulling."),
    ("SUCCEED", "integer", ".status.succeeded", "Nodes that have the image."),
    ("FAILED", "integer", ".status.failed", "Nodes that gave up."),
    AGE,
];

/// The column of ImagePullJob that only v1alpha1 has.
const IMAGEPULLJOB_V1ALPHA1: (&str, &str, &str, &str) = ("MESSAGE", "string", ".status.message", "What is going on.");

const IMAGELISTPULLJOB: [(&str, &str, &str, &str); 4] = [
    ("TOTAL", "integer", ".status.desired", "Images to pull."),
    ("SUCCEEDED", "integer", ".status.succeeded", "Images that all nodes have."),
    ("COMPLETED", "integer", ".status.completed", "Images that all nodes have or gave up."),
    AGE,
];

const NODEIMAGE: [(&str, &str, &str, &str); 5] = [
    ("DESIRED", "integer", ".status.desired", "Pulls that are wanted."),
    ("PULLING", "integer", ".status.pulling", "Pulls that are going on."),
    ("SUCCEED", "integer", ".status.succeeded", "Pulls that succeeded."),
    ("FAILED", "integer", ".status.failed", "Pulls that failed."),
    AGE,
];

/// The columns of one version of one kind.
pub(super) fn of(kind: &str, version: &str) -> Vec<Value> {
    let columns = |columns: &[_], priority| columns.iter().map(|column| to_json(column, priority)).collect::<Vec<_>>();
    match kind {
        "CloneSet" => [columns(&CLONESET, 0), columns(&CLONESET_WIDE, 1)].concat(),
        "ImagePullJob" if version == V1ALPHA1 => {
            [columns(&IMAGEPULLJOB, 0), columns(&[IMAGEPULLJOB_V1ALPHA1], 0)].concat()
        }
        "ImagePullJob" => columns(&IMAGEPULLJOB, 0),
        "ImageListPullJob" => columns(&IMAGELISTPULLJOB, 0),
        "NodeImage" => columns(&NODEIMAGE, 0),
        _ => Vec::new(),
    }
}

fn to_json((name, type_, path, description): &(&str, &str, &str, &str), priority: i32) -> Value {
    let mut column = json!({"name": name, "type": type_, "jsonPath": path, "description": description});
    if priority > 0 {
        column["priority"] = json!(priority);
    }
    column
}
