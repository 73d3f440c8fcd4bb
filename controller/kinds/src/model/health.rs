//! The health of simulated pods: a pod serves unless a test broke its container, or an image is
//! named `bad`.

use serde_json::{Value, json};

/// The pod's first container fails from now on, until it is made from another image.
pub(crate) fn break_container(pod: &mut Value) {
    pod["broken"] = created(pod);
    report(pod, false);
}

/// The kubelet finds out whether the pod's containers are ready.
pub(crate) fn probe(pod: &mut Value, mended: bool) -> bool {
    let image = created(pod);
    let serves = mended
        || (pod["broken"] != image && !image.as_str().unwrap_or_default().starts_with("bad:"));
    report(pod, serves);
    serves
}

fn created(pod: &Value) -> Value {
    let name = pod["spec"]["containers"][0]["name"].as_str().unwrap();
    pod["created"][name]["image"].clone()
}

fn report(pod: &mut Value, ready: bool) {
    let statuses = pod
        .pointer_mut("/status/containerStatuses")
        .and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        status["ready"] = json!(ready);
    }
}
