//! Queries of tests about the pods.

use std::collections::BTreeMap;

use serde_json::Value;

use super::World;

impl World {
    /// The names of the containers that each pod has.
    pub(in crate::cloneset) fn started(&self) -> Vec<Vec<String>> {
        let statuses = |pod: &Value| {
            pod["status"]["containerStatuses"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let name = |status: &Value| status["name"].as_str().unwrap().to_owned();
        self.each(|pod| statuses(pod).iter().map(name).collect())
    }

    /// The images of each pod's spec.
    pub(in crate::cloneset) fn wanted_images(&self) -> Vec<Vec<String>> {
        let containers = |pod: &Value| pod["spec"]["containers"].as_array().unwrap().clone();
        let image = |container: &Value| container["image"].as_str().unwrap().to_owned();
        self.each(|pod| containers(pod).iter().map(image).collect())
    }

    /// The record on the first pod.
    pub(in crate::cloneset) fn state(&self) -> Value {
        let records = self.annotations(berth_api::names::annotation::INPLACE_UPDATE_STATE);
        serde_json::from_str(records[0].as_str().unwrap()).unwrap()
    }

    /// By pod, its containers in the order of the spec: whether each runs its wanted image, and
    /// whether it is ready.
    pub(in crate::cloneset) fn container_states(&self) -> BTreeMap<String, Vec<(String, bool)>> {
        let state = |pod: &Value, container: &Value| {
            let name = container["name"].as_str().unwrap().to_owned();
            let statuses = pod["status"]["containerStatuses"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let ready = statuses
                .iter()
                .any(|status| status["name"] == name && status["ready"] == true);
            let exact = pod["created"][&name]["image"] == container["image"];
            (name, ready && exact)
        };
        let of = |pod: &Value| {
            let containers = pod["spec"]["containers"].as_array().unwrap();
            containers
                .iter()
                .map(|container| state(pod, container))
                .collect()
        };
        self.pods
            .iter()
            .map(|(name, pod)| (name.clone(), of(pod)))
            .collect()
    }

    /// Some writes of a step, as if the controller ended after them.
    pub(in crate::cloneset) fn write_some(&mut self, actions: &[berth_workload::plan::Action]) {
        actions.iter().for_each(|action| self.write(action));
    }
}
