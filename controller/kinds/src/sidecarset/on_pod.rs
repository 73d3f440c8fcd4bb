//! What a slim pod's annotations say of its SidecarSets.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_workload::pod::Pod;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::names::{HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, WORKING_HOT_CONTAINER};

/// What is asked of a record ([`super::records::Record`]). Each decision reads those of all pods, and of each that of one SidecarSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Known {
    pub(super) hash: String,
    pub(super) controller_revision: String,
}

/// The record of the containers that a pod has of a SidecarSet.
pub(super) fn record(pod: &Pod, set: &str) -> Option<Known> {
    known(pod.metadata.annotation(HASH)?, set)
}

/// The same with the hash that leaves out images.
pub(super) fn record_without_image(pod: &Pod, set: &str) -> Option<Known> {
    known(pod.metadata.annotation(HASH_WITHOUT_IMAGE)?, set)
}

fn known(text: &str, set: &str) -> Option<Known> {
    let all: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).ok()?;
    let record = all.get(set)?.get();
    // The old form is the hash alone.
    let hash = || Some(Known { hash: serde_json::from_str(record).ok()?, ..Known::default() });
    serde_json::from_str(record).ok().or_else(hash)
}

/// Does the pod have containers of the SidecarSet, as far as its annotations say? Pods from before version 0.8 of the peer have no
/// list.
pub fn is_injected(pod: &Pod, set: &str) -> bool {
    match pod.metadata.annotation(INJECTED_LIST).filter(|list| !list.is_empty()) {
        Some(list) => list.split(',').any(|name| name == set),
        None => record(pod, set).is_some(),
    }
}

/// Which of the two containers of each hot-upgraded one works, by its name in the SidecarSet.
pub(super) fn working(pod: &Pod) -> BTreeMap<String, String> {
    let text = pod.metadata.annotation(WORKING_HOT_CONTAINER);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_injected_if_it_is_listed_or_has_a_record_and_no_list() {
        let hash = json!({"log": "h1"}).to_string();
        for (annotations, expected) in [
            (json!({INJECTED_LIST: "a,log"}), true),
            (json!({INJECTED_LIST: "a,logs"}), false),
            (json!({HASH: hash}), true),
            (json!({HASH: hash, INJECTED_LIST: "a"}), false),
            (json!({}), false),
        ] {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
            assert_eq!(is_injected(&pod, "log"), expected, "{annotations}");
        }
    }
}
