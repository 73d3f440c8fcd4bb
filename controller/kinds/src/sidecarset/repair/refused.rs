//! Pods that did not get the containers though the webhook was called for them: a revision is lost,
//! an expression has no value, a volume is missing. An annotation of the pod keeps the reason,
//! because the answer to its creation is gone later.

use std::collections::BTreeMap;

use berth_workload::objects::pod::Pod;
use serde_json::{Value, json};

use crate::sidecarset::names::REFUSED;

/// The most reasons on a pod, and the most characters of one.
const MOST: usize = 16;
const LONGEST: usize = 200;

/// Records on a pod that is being created which SidecarSets it was refused, each with the reason.
/// The record replaces an earlier one.
pub fn note<'a>(pod: &mut Value, refused: impl Iterator<Item = (&'a str, &'a str)>) {
    let short = |why: &str| why.chars().take(LONGEST).collect::<String>();
    let refused: BTreeMap<_, _> = refused
        .take(MOST)
        .map(|(set, why)| (set, short(why)))
        .collect();
    if let Some(Value::Object(annotations)) = pod.pointer_mut("/metadata/annotations") {
        annotations.remove(REFUSED);
    }
    // A map with string keys always serialises.
    if let (false, Ok(text)) = (refused.is_empty(), serde_json::to_string(&refused)) {
        pod["metadata"]["annotations"][REFUSED] = json!(text);
    }
}

/// The reason why the pod did not get the containers, according to its annotation.
pub(in crate::sidecarset) fn reason(pod: &Pod, set: &str) -> Option<String> {
    let mut refused: BTreeMap<String, String> =
        serde_json::from_str(pod.metadata.annotation(REFUSED)?).ok()?;
    Some(refused.remove(set)?.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests;
