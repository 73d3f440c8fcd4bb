//! What takes time and is done beside the loop.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::nodeimage::{ImageFact, InspectPod, InspectedPod, NodeImageStatus};
use tokio::sync::mpsc;

use super::now;
use crate::cri::CriError;
use crate::inspect::{self, Facts};
use crate::nodeimage::NodeImageError;
use crate::runtime::Runtime;
use crate::tasks::{Key, Outcome, Resolved};

/// What came of a job.
pub(super) enum Done {
    /// The node was asked for an image.
    Looked(Key, Result<Option<Resolved>, CriError>),
    /// A try to pull is over.
    Ended(u64, Outcome),
    /// Pods were inspected.
    Inspected(Result<(Vec<InspectedPod>, Vec<ImageFact>), CriError>),
    /// A status was written; with the resourceVersion that came of it.
    Written(Result<(NodeImageStatus, String), NodeImageError>),
}

/// Asks the node for an image.
pub(super) async fn look(runtime: Arc<Runtime>, key: Key, done: mpsc::Sender<Done>) {
    let found = runtime.resolve(&key.reference()).await;
    // Nobody listens only when the daemon ends; so with every send here.
    let _ = done.send(Done::Looked(key, found)).await;
}

/// Inspects pods.
pub(super) async fn inspect(
    runtime: Arc<Runtime>,
    pods: Vec<InspectPod>,
    names: Vec<String>,
    before: Vec<InspectedPod>,
    done: mpsc::Sender<Done>,
) {
    let answer = answer(&runtime, &pods, &names, &before).await;
    let _ = done.send(Done::Inspected(answer)).await;
}

async fn answer(
    runtime: &Runtime,
    pods: &[InspectPod],
    names: &[String],
    before: &[InspectedPod],
) -> Result<(Vec<InspectedPod>, Vec<ImageFact>), CriError> {
    let one = match pods {
        [pod] => Some(pod.uid.as_str()),
        _ => None,
    };
    let containers = runtime.cri.containers(one).await?;
    let images = runtime.cri.images().await?;
    let facts = Facts { runtime: runtime.cri.name(), containers: &containers, images: &images, names };
    let pods = inspect::inspect(pods, facts, before, now());
    let named: BTreeSet<&String> =
        pods.iter().flat_map(|pod| &pod.containers).map(|c| &c.image).filter(|image| !image.is_empty()).collect();
    let mut facts = Vec::new();
    for image in named {
        // A name that the runtime refuses is one that it has no image for.
        let found = match runtime.resolve(image).await {
            Err(CriError::Refused(_)) => None,
            found => found?,
        };
        facts.push(ImageFact { image: image.clone(), image_ids: found.map(|r| r.ids).unwrap_or_default() });
    }
    Ok((pods, facts))
}
