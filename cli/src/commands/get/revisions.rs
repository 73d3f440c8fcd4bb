//! Which objects belong to a workload, and to which of its revisions.

use berth_api::names::{annotation, label};
use berth_workload::update::revision::short;
use serde_json::Value;

use super::pods::{annotation_of, label_of};
use super::world::World;
use crate::objects::{controller, name, text};

/// Whether an object belongs to the workload.
pub fn is_own(world: &World, object: &Value) -> bool {
    let uid = text(&world.object, "/metadata/uid");
    if world.plural == "sidecarsets" && object["kind"] != "ControllerRevision" {
        let list = annotation_of(object, annotation::SIDECARSET_INJECTED_LIST);
        return list.split(',').any(|one| one == name(&world.object));
    }
    controller(object).is_some_and(|owner| owner["uid"] == uid)
}

/// The hash of a pod's revision; empty if it has none.
pub fn revision_of(world: &World, pod: &Value) -> String {
    if world.plural != "sidecarsets" {
        return short(label_of(pod, label::CONTROLLER_REVISION_HASH)).to_owned();
    }
    let records = annotation_of(pod, annotation::SIDECARSET_HASH);
    let records: Value = serde_json::from_str(records).unwrap_or_default();
    let record = &records[name(&world.object)];
    short(text(record, "/controllerRevision")).to_owned()
}

/// The hash of the update revision.
pub fn update_revision(object: &Value) -> &str {
    let names = ["/status/updateRevision", "/status/latestRevision"];
    let name = names.map(|pointer| text(object, pointer));
    short(
        name.into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default(),
    )
}
