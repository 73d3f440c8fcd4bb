//! The order in which the containers of a pod with sidecars start.
//!
//! The order is decided when all containers exist, because it includes the sidecars, and because an
//! annotation that a SidecarSet puts on the pod may ask for it. The controller that lets the
//! containers start one after the other sees the pod alone. So all of them are ordered anew,
//! including those that the pod's workload has ordered before.

use std::collections::BTreeSet;

use berth_api::names::env::CONTAINER_PRIORITY;
use berth_workload::update::launch;
use serde_json::{Value, json};

use super::own::variable;

/// The longest base of a generated name, as the apiserver truncates it.
const LONGEST_BASE: usize = 58;

/// Orders the containers; `brought` has those of SidecarSets. A pod whose name would be generated
/// gets its name here, with `suffix` at its end, because the variables need the name.
pub(super) fn order(
    pod: &mut Value,
    brought: &BTreeSet<String>,
    suffix: &str,
    warnings: &mut Vec<String>,
) {
    let priorities = match launch::priorities(pod) {
        Ok(Some(priorities)) => priorities,
        Ok(None) => return,
        Err((_, problem)) => {
            warnings.push(format!(
                "sidecars have no place in the order in which containers start: {problem}"
            ));
            return;
        }
    };
    let containers = pod["spec"]["containers"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let priorities = without_held(containers, brought, &priorities);
    let Some(name) = name(&pod["metadata"], suffix) else {
        return;
    };
    if launch::order(pod, &name, priorities) {
        pod["metadata"]["name"] = json!(name);
    } else {
        warnings.push(
            "containers start in no order: the pod's name is too long for that of its ConfigMap"
                .to_owned(),
        );
    }
}

/// The priorities without those of sidecars that would wait for a container of the pod's own,
/// unless the SidecarSet itself writes the priority. Otherwise the pod's creator could keep a
/// sidecar from starting by a container that is never ready.
fn without_held(
    containers: &[Value],
    brought: &BTreeSet<String>,
    priorities: &[i32],
) -> Vec<Option<i32>> {
    let is_brought = |container: &Value| {
        container["name"]
            .as_str()
            .is_some_and(|name| brought.contains(name))
    };
    let all = || containers.iter().zip(priorities);
    let highest = all()
        .filter(|(container, _)| !is_brought(container))
        .map(|(_, priority)| *priority)
        .max();
    let of = |(container, priority): (&Value, &i32)| {
        let waits = highest.is_some_and(|highest| *priority < highest);
        let has_priority = variable(container, CONTAINER_PRIORITY).is_some();
        (!is_brought(container) || !waits || has_priority).then_some(*priority)
    };
    all().map(of).collect()
}

fn name(metadata: &Value, suffix: &str) -> Option<String> {
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    let generated = |base: &str| {
        format!(
            "{}{suffix}",
            &base[..base.floor_char_boundary(LONGEST_BASE)]
        )
    };
    text("name")
        .map(str::to_owned)
        .or_else(|| text("generateName").map(generated))
}
