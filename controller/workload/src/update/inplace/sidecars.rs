//! The records of in-place updates of containers that SidecarSets brought, in the annotation
//! `kruise.io/sidecarset-inplace-update-state`: one for each SidecarSet.

use std::collections::BTreeMap;

use berth_api::names::annotation::SIDECARSET_INPLACE_UPDATE_STATE;
use serde_json::Value;

use super::state::State;
use crate::objects::pod::Pod;

/// The records as they are written, by SidecarSet. What is no JSON of records has none.
pub fn written(pod: &Pod) -> BTreeMap<String, Value> {
    let text = pod.metadata.annotation(SIDECARSET_INPLACE_UPDATE_STATE);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The record of a SidecarSet's last update.
pub fn state(pod: &Pod, set: &str) -> Option<State> {
    serde_json::from_value(written(pod).remove(set)?).ok()
}

/// The records whose updates are not proven.
pub fn unsettled(pod: &Pod) -> impl Iterator<Item = State> {
    let all = written(pod).into_values();
    all.filter_map(|record| serde_json::from_value::<State>(record).ok())
        .filter(|state| !state.is_settled())
}
