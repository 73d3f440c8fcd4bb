//! Containers that start one after the other.
//!
//! A pod is created with the barriers that its containers wait for. Its workload adds them if it is
//! one of Berth's kinds. The pod webhook adds them again, because it knows the containers of
//! SidecarSets. The controller writes the ConfigMap and never reads it: the pod's annotations show
//! its progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::names::{annotation, env};
use serde_json::{Value, json};

use crate::objects::pod::{Pod, priority};
use crate::objects::resource::CONFIG_MAPS;
use crate::plan::{Action, Event, IfExists, Plan, PodPatch, Step};
use crate::update::inplace::steps;

/// The priorities of the template's containers. `None` if nothing orders them.
///
/// # Errors
/// The field below `spec`, and its fault.
pub fn priorities(template: &Value) -> Result<Option<Vec<i32>>, (&'static str, String)> {
    let containers = template["spec"]["containers"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if containers.len() < 2 {
        return Ok(None);
    }
    let ordered = &template["metadata"]["annotations"][annotation::CONTAINER_LAUNCH_PRIORITY];
    if ordered == annotation::CONTAINER_LAUNCH_ORDERED {
        return Ok(Some(
            (0..containers.len())
                .map(|at| -i32::try_from(at).unwrap_or(i32::MAX))
                .collect(),
        ));
    }
    let priorities: Vec<i32> = containers
        .iter()
        .map(of_container)
        .collect::<Result<_, _>>()?;
    let differ = priorities
        .iter()
        .any(|priority| Some(priority) != priorities.first());
    Ok(differ.then_some(priorities))
}

fn of_container(container: &Value) -> Result<i32, (&'static str, String)> {
    let mut variables = container["env"].as_array().into_iter().flatten();
    let Some(variable) = variables.rfind(|variable| variable["name"] == env::CONTAINER_PRIORITY)
    else {
        return Ok(0);
    };
    let text = variable["value"].as_str().unwrap_or_default();
    text.parse().map_err(|_| {
        let name = &container["name"];
        let problem = format!(
            "container {name}: {} is {text:?}; set its value to a whole number",
            env::CONTAINER_PRIORITY
        );
        ("template.spec.containers", problem)
    })
}

/// Adds barriers to the containers of a new pod, if its template orders them.
pub(crate) fn hold_back(template: &Value, spec: &mut Value, pod: &str) {
    // An invalid template was refused before.
    let Ok(Some(priorities)) = priorities(template) else {
        return;
    };
    let containers = spec["containers"].as_array_mut().into_iter().flatten();
    containers
        .zip(priorities)
        .for_each(|(container, of)| wait(container, of, pod));
}

/// Makes a container wait for its own priority, in place of an earlier barrier.
fn wait(container: &mut Value, priority: i32, pod: &str) {
    let reference = json!({"name": priority::barrier(pod), "key": priority::key(priority)});
    let barrier =
        json!({"name": env::CONTAINER_BARRIER, "valueFrom": {"configMapKeyRef": reference}});
    let Some(container) = container.as_object_mut() else {
        return;
    };
    let Some(variables) = container
        .entry("env")
        .or_insert_with(|| json!([]))
        .as_array_mut()
    else {
        return;
    };
    let mut known = variables
        .iter()
        .filter(|variable| variable["name"] == env::CONTAINER_BARRIER);
    // An existing barrier stays in its place.
    if known.next() == Some(&barrier) && known.next().is_none() {
        return;
    }
    variables.retain(|variable| variable["name"] != env::CONTAINER_BARRIER);
    variables.push(barrier);
}

/// Orders the containers of a new pod of this name by their priorities, and removes earlier
/// barriers. A container without a priority does not wait, and no other container waits for it.
/// Returns false if the name is too long for the name of its ConfigMap: then the containers could
/// never start.
pub fn order(
    pod: &mut Value,
    name: &str,
    priorities: impl IntoIterator<Item = Option<i32>>,
) -> bool {
    if priority::barrier(name).len() > LONGEST_NAME {
        return false;
    }
    let containers = pod["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten();
    for (container, priority) in containers.zip(priorities) {
        if let Some(priority) = priority {
            wait(container, priority, name);
        }
    }
    // The progress of another pod that this one is a copy of is meaningless here, and would block
    // this pod forever.
    if let Some(Value::Object(annotations)) = pod.pointer_mut("/metadata/annotations") {
        annotations.retain(|key, _| !HOW_FAR.contains(&key.as_str()));
    }
    true
}

/// The annotations with a pod's progress.
const HOW_FAR: [&str; 2] = [
    annotation::CONTAINER_LAUNCH_PRIORITY_COMPLETED,
    annotation::LAUNCHED_PRIORITY,
];
/// The most bytes of an object's name.
const LONGEST_NAME: usize = 253;

/// Whether the pod's containers start in order and some of them may not start yet.
pub fn is_under_way(pod: &Pod) -> bool {
    let completed = pod
        .metadata
        .annotation(annotation::CONTAINER_LAUNCH_PRIORITY_COMPLETED)
        == Some("true");
    pod.is_active()
        && !completed
        && pod
            .spec
            .containers
            .iter()
            .any(|container| container.env.priority().is_some())
}

/// Lets the next containers of each pod start once all containers of higher priorities are ready.
pub fn release(pods: &[Arc<Pod>], plan: &mut Plan) {
    let mut steps = Vec::new();
    for pod in pods.iter().filter(|pod| is_under_way(pod)) {
        let all: BTreeSet<i32> = pod
            .spec
            .containers
            .iter()
            .filter_map(|container| container.env.priority())
            .collect();
        let Some(lowest) = all.first().copied() else {
            continue;
        };
        let next = priority::next(pod).unwrap_or(lowest);
        let released = pod
            .metadata
            .annotation(annotation::LAUNCHED_PRIORITY)
            .and_then(|text| text.parse().ok());
        if released.is_some_and(|released: i32| released <= next) {
            let reason = format!(
                "its containers start in order, and those below priority {next} wait for those of it"
            );
            plan.wait_for_pod(pod, reason);
            continue;
        }
        steps.push(open(pod, &all, next, lowest));
    }
    plan.add_stage("launch order", steps);
}

/// Three repeatable writes: the ConfigMap if it is missing, the keys, and the pod's progress. The
/// second changes only this pod's own ConfigMap. The third also makes the kubelet sync the pod at
/// once.
fn open(pod: &Pod, all: &BTreeSet<i32>, next: i32, lowest: i32) -> Step {
    let (name, uid) = (&pod.metadata.name, &pod.metadata.uid);
    let keys: Vec<String> = all.range(next..).map(|of| priority::key(*of)).collect();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": priority::barrier(name), "namespace": pod.metadata.namespace, "ownerReferences": [owner],
        },
        "data": {},
    });
    let mut patch = PodPatch::default();
    let (annotation, value) = if next == lowest {
        (
            annotation::CONTAINER_LAUNCH_PRIORITY_COMPLETED,
            "true".to_owned(),
        )
    } else {
        (annotation::LAUNCHED_PRIORITY, next.to_string())
    };
    patch.annotations.insert(annotation.into(), Some(value));
    let target = steps::target(pod);
    Step {
        actions: vec![
            Action::Create {
                resource: CONFIG_MAPS,
                body,
                if_exists: IfExists::IsFine,
            },
            Action::OpenBarrier {
                pod: target.clone(),
                keys,
            },
            Action::PatchPod { target, patch },
        ],
        reason: format!("pod {name}: its containers of priority {next} may start"),
        done: None,
        failed: Some(Event::warning(
            "FailedLaunchOrder",
            format!("failed to let the containers of priority {next} of pod {name} start"),
        )),
    }
}
