//! Does a pod run the image that its spec names, by its node's own report?

use std::fmt;

use berth_api::names::annotation;
use serde_json::Value;

use crate::record::PodView;

/// The node's knowledge of the image that a container runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// The node knows the wanted image by the id that the container runs.
    Same {
        /// The id, shortened for people.
        id: String,
        /// How the controller proved that the container was created from the wanted spec: `pod` or
        /// `node`; empty for a pod that was never updated in place.
        by: String,
    },
    /// The node knows the wanted image by other ids, because a tag moved.
    Differs {
        /// The id that runs.
        runs: String,
        /// The ids of the wanted image.
        wanted: Vec<String>,
    },
    /// The node has not reported the wanted image.
    Unknown,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verified::Same { id, by } if by.is_empty() => write!(f, "{id} = node's"),
            Verified::Same { id, by } => write!(f, "{id} = node's, exact by {by}"),
            Verified::Differs { runs, wanted } => {
                write!(f, "{runs}, but the node has {}", wanted.join(" "))
            }
            Verified::Unknown => f.write_str("not known by the node"),
        }
    }
}

/// Compares the pod's container with its NodeImage. `annotations` are the pod's.
pub fn verify(pod: &PodView, container: &str, annotations: &Value, node_image: &Value) -> Verified {
    let Some(container) = pod.containers.get(container) else {
        return Verified::Unknown;
    };
    let known = ids_of(node_image, &container.wanted);
    if known.is_empty() || container.image_id.is_empty() {
        return Verified::Unknown;
    }
    let runs = digest(&container.image_id);
    if known.iter().any(|id| digest(id) == runs) {
        let state = annotations[annotation::INPLACE_UPDATE_STATE]
            .as_str()
            .unwrap_or_default();
        let state: Value = serde_json::from_str(state).unwrap_or_default();
        let by = state["berthVerifiedBy"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        return Verified::Same {
            id: short(runs),
            by,
        };
    }
    Verified::Differs {
        runs: short(runs),
        wanted: known.iter().map(|id| short(digest(id))).collect(),
    }
}

/// All ids of an image on a node: those that it reports of pods under way, and of its pulls.
fn ids_of(node_image: &Value, image: &str) -> Vec<String> {
    let status = &node_image["status"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_pods = list(&status["imageFacts"])
        .into_iter()
        .filter(|fact| fact["image"] == image);
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    let of_pulls = list(&status["imageStatuses"][name]["tags"])
        .into_iter()
        .filter(|status| status["tag"] == tag);
    let ids = of_pods
        .chain(of_pulls)
        .flat_map(|fact| list(&fact["imageIDs"]));
    ids.filter_map(|id| id.as_str().map(str::to_owned))
        .collect()
}

/// Ids name a repository, a scheme or neither before the digest.
fn digest(id: &str) -> &str {
    id.rfind("sha256:").map_or(id, |at| &id[at..])
}

fn short(digest: &str) -> String {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.chars().take(12).collect()
}

#[cfg(test)]
mod tests;
