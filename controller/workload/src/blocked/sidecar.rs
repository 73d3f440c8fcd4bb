//! Containers of a pod that are not in its workload's template because SidecarSets injected them.

use std::collections::BTreeMap;

use berth_api::name::is_dns_subdomain;
use berth_api::names::annotation::SIDECARSET_HASH;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::objects::pod::Pod;

/// The part of a SidecarSet's record in the pod that this module reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    sidecar_list: Option<Vec<String>>,
}

/// The SidecarSet that injected a container, and the container's name there. The two containers of
/// a hot-upgrade pair share one name. Any writer of the pod can change the record, so that only
/// messages may use it.
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

/// Whether the record lists the container. A record in the old form, a hash alone, lists none.
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
