//! A node as decisions see it.

pub mod image;

use serde::{Deserialize, Deserializer};

use crate::pod::Metadata;

/// A node, stripped to what decisions read. The feed decodes watch events straight into it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Node {
    /// Name, uid, labels.
    pub metadata: Metadata,
    /// Its `Ready` condition is True.
    #[serde(rename = "status", default, deserialize_with = "is_ready")]
    pub ready: bool,
    /// `kubectl cordon`: no new pod is scheduled to it.
    #[serde(rename = "spec", default, deserialize_with = "is_cordoned")]
    pub cordoned: bool,
}

impl Node {
    /// Does a change of a node matter to its NodeImage? Most do not: the kubelet renews its conditions all the time.
    pub fn concerns(old: Option<&Self>, new: &Self) -> bool {
        let facts = |node: &Self| (node.ready, node.metadata.deletion_timestamp.is_some());
        old.is_none_or(|old| {
            old.metadata.uid != new.metadata.uid
                || old.metadata.labels != new.metadata.labels
                || facts(old) != facts(new)
        })
    }

    /// No kubelet and no container runtime stand behind the node, but another service.
    pub fn is_virtual(&self) -> bool {
        self.metadata.label("type") == Some("virtual-kubelet")
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

fn is_ready<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let status = Option::<Status>::deserialize(deserializer)?.unwrap_or_default();
    Ok(status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
}

fn is_cordoned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<Spec>::deserialize(deserializer)?.unwrap_or_default().unschedulable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_node_only_what_decisions_read_is_kept() {
        let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
        for (spec, status, expected) in [
            (json!({"unschedulable": true, "podCIDR": "10.0.0.0/24"}), ready("True"), (true, true)),
            (json!({}), ready("Unknown"), (false, false)),
            (json!(null), json!(null), (false, false)),
        ] {
            let node: Node =
                serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": spec, "status": status})).unwrap();
            assert_eq!((node.cordoned, node.ready), expected, "{spec} {status}");
        }
    }
}
