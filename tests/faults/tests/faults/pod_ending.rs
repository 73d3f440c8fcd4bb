//! A pod at the end of a run, without the parts that differ from run to run: a generated name, a
//! uid, addresses, times.

use std::collections::BTreeMap;

use anyhow::Result;
use berth_api::names::{annotation, label};
use berth_e2e::objects::CONTAINER;
use berth_e2e::record::PodView;
use serde::Serialize;
use serde_json::Value;

/// An image, and its digest.
pub(crate) type Image<'a> = (&'a str, &'a str);

/// All differences of a pod that users could find.
#[derive(Debug, Serialize)]
pub(crate) struct PodEnding {
    pub(crate) labels: BTreeMap<String, String>,
    /// The image of each container.
    images: Vec<String>,
    image_id: String,
    /// Types and statuses.
    conditions: BTreeMap<String, String>,
    serves: bool,
    /// There is no record of an in-place update, or it is of the pod's revision and proven.
    proven: bool,
    pub(crate) restarts: Option<i32>,
}

impl PodEnding {
    /// Reads a pod. Reads its restarts only if every run has equally many.
    pub(crate) fn read(pod: &Value, restarts_are_certain: bool) -> Result<PodEnding> {
        let view = PodView::of(&serde_json::from_value(pod.clone())?);
        let container = view.containers.get(CONTAINER).cloned().unwrap_or_default();
        let mut labels = strings(&pod["metadata"]["labels"]);
        labels.remove(label::CLONESET_INSTANCE_ID);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let annotations = strings(&pod["metadata"]["annotations"]);
        Ok(PodEnding {
            proven: annotations
                .get(annotation::INPLACE_UPDATE_STATE)
                .is_none_or(|state| is_proven(state, &view)),
            images: view
                .containers
                .values()
                .map(|container| container.wanted.clone())
                .collect(),
            image_id: container.image_id,
            conditions: conditions
                .map(|c| (text(&c["type"]), text(&c["status"])))
                .collect(),
            serves: view.serves(),
            restarts: restarts_are_certain.then_some(container.restarts),
            labels,
        })
    }

    /// Every container wants this image, and the main one runs it.
    pub(crate) fn has_image(&self, (image, digest): Image<'_>) -> bool {
        self.images.iter().all(|own| own == image) && self.image_id.ends_with(digest)
    }

    /// The pod serves, and no update of it is under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.serves && self.proven
    }

    /// The pod is in service, and waits for nothing.
    pub(crate) fn is_in_service(&self) -> bool {
        let gates = ["InPlaceUpdateReady", "KruisePodReady", "Ready"];
        let open = gates.iter().all(|gate| {
            self.conditions
                .get(*gate)
                .is_some_and(|status| status == "True")
        });
        let normal = self
            .labels
            .get(label::LIFECYCLE_STATE)
            .is_some_and(|state| state == "Normal");
        // The status does not show that a user requested the pod's deletion.
        let stays = !self.labels.contains_key(label::SPECIFIED_DELETE);
        open && normal && stays && self.is_at_rest()
    }
}

fn is_proven(state: &str, pod: &PodView) -> bool {
    let state: Value = serde_json::from_str(state).unwrap_or_default();
    // The label may be the hash alone.
    let is_of_pod = !pod.revision.is_empty() && text(&state["revision"]).ends_with(&pod.revision);
    is_of_pod && !text(&state["berthVerifiedBy"]).is_empty()
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
