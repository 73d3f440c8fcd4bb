//! Containers of a pod that are in no template, for SidecarSets brought them.

use std::collections::BTreeMap;

use berth_api::name::is_dns_subdomain;
use berth_api::names::annotation::SIDECARSET_HASH;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::objects::pod::Pod;

/// What is asked of a record.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    sidecar_list: Option<Vec<String>>,
}

/// The SidecarSet that brought a container to the pod, and the container's name there, where two of a hot pair are one. Whoever writes
/// the pod may say anything, so it is good for a message alone.
pub(super) fn brought(pod: &Pod, container: &str) -> Option<(String, String)> {
    let text = pod.metadata.annotation(SIDECARSET_HASH)?;
    let records: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let of_pair = container
        .strip_suffix("-1")
        .or_else(|| container.strip_suffix("-2"));
    [Some(container), of_pair]
        .into_iter()
        .flatten()
        .find_map(|name| {
            let (set, _) = records
                .iter()
                .find(|(set, record)| is_dns_subdomain(set) && lists(record, name))?;
            Some((set.clone(), name.to_owned()))
        })
}

/// Is the container in the record? One in the old form, a hash alone, lists none.
fn lists(record: &RawValue, container: &str) -> bool {
    let record: Record = serde_json::from_str(record.get()).unwrap_or_default();
    record
        .sidecar_list
        .iter()
        .flatten()
        .any(|name| name == container)
}

#[cfg(test)]
mod tests;
