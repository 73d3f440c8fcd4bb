//! The order in which the containers of a pod with sidecars start.
//!
//! It is decided when all containers are there: a sidecar has its place in it, and an annotation that a SidecarSet puts on the pod
//! may ask for it. Who lets the containers start one after the other sees the pod alone, so all of them are ordered anew, those
//! that the pod's workload has ordered before included.

use berth_workload::launch;
use serde_json::{Value, json};

/// As the apiserver cuts what it generates a name from.
const LONGEST_BASE: usize = 58;

/// Orders the containers. A pod whose name is yet to be generated gets it here, `suffix` behind, for the variables need it.
pub(super) fn order(pod: &mut Value, suffix: &str, warnings: &mut Vec<String>) {
    let priorities = match launch::priorities(pod) {
        Ok(Some(priorities)) => priorities,
        Ok(None) => return,
        Err((_, problem)) => {
            warnings.push(format!("sidecars have no place in the order in which containers start: {problem}"));
            return;
        }
    };
    let Some(name) = name(&pod["metadata"], suffix) else { return };
    if launch::order(pod, &name, &priorities) {
        pod["metadata"]["name"] = json!(name);
    } else {
        warnings.push("containers start in no order: the pod's name is too long for that of its ConfigMap".to_owned());
    }
}

fn name(metadata: &Value, suffix: &str) -> Option<String> {
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    let generated = |base: &str| format!("{}{suffix}", &base[..base.floor_char_boundary(LONGEST_BASE)]);
    text("name").map(str::to_owned).or_else(|| text("generateName").map(generated))
}
