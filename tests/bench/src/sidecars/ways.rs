//! All pods' sidecars get another image, in each of the ways.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::{Replicas, Update, make_pods, make_set, sidecar_set, until_updated};
use crate::admission;
use crate::phases::{NAMESPACE, Stage, begin};

/// The kind of container of a sidecar, and the way it gets its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A container that restarts with the new image.
    Cold,
    /// The same, as an init container that runs beside the others.
    Native,
    /// Two containers, of which the new one takes over from the old.
    Hot,
}

pub(super) const ALL: [Way; 3] = [Way::Cold, Way::Native, Way::Hot];
/// A pod's condition changes at its first update, and not later.
const TIMES: [(&str, &str); 2] = [("first", "sidecar:2"), ("again", "sidecar:3")];

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Native => "native",
            Self::Hot => "hot",
        }
    }

    /// The containers of a SidecarSet.
    fn containers(self, image: &str) -> Value {
        let plain = json!({"name": "sidecar", "image": image});
        match self {
            Self::Cold => json!({"containers": [plain]}),
            Self::Native => {
                let native = json!({"name": "sidecar", "image": image, "restartPolicy": "Always"});
                json!({"initContainers": [native]})
            }
            Self::Hot => {
                let strategy =
                    json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
                json!({"containers": [{"name": "sidecar", "image": image, "upgradeStrategy": strategy}]})
            }
        }
    }
}

/// Updates so many pods twice.
pub(super) async fn measure(
    stage: &mut Stage,
    replicas: &Replicas,
    way: Way,
    pods: usize,
) -> Result<Vec<Update>> {
    let name = way.name();
    let mut spec = way.containers("sidecar:1");
    spec["updateStrategy"] = json!({"maxUnavailable": "25%"});
    make_set(stage, &sidecar_set(name, &spec)).await?;
    make_pods(stage, name, pods, Duration::ZERO).await?;
    let mut updates = Vec::new();
    for (time, image) in TIMES {
        let phase = begin(stage, Some(&replicas.leader)).await?;
        let patch = json!({"spec": way.containers(image)});
        objects::patch(&stage.client, "", kind::SIDECAR_SET, name, &patch).await?;
        until_updated(stage, name, pods).await?;
        let phase = phase
            .end(stage, Some(&replicas.leader), (name, 1), (time, pods))
            .await?;
        updates.push(Update {
            way: name,
            phase,
            follower: replicas.follower.used()?.resident,
        });
        ensure_images(stage, way, image).await?;
    }
    admission::delete(stage).await?;
    Ok(updates)
}

/// Checks that the pods have the images that the status reports.
async fn ensure_images(stage: &Stage, way: Way, image: &str) -> Result<()> {
    let pods = objects::list(&stage.client, NAMESPACE, kind::POD, "").await?;
    for pod in &pods {
        let lists = [
            &pod["status"]["initContainerStatuses"],
            &pod["status"]["containerStatuses"],
        ];
        let all = || lists.into_iter().filter_map(Value::as_array).flatten();
        let count = |wanted: &str| all().filter(|status| status["image"] == wanted).count();
        let empty = usize::from(way == Way::Hot);
        ensure!(
            count(image) == 1 && count("empty:1") == empty,
            "not all run {image}: {}",
            pod["status"]
        );
    }
    Ok(())
}
