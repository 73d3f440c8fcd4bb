//! Slow work that runs in tasks of its own, beside the agent's loop.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::nodeimage::{ImageFact, InspectPod, InspectedPod, NodeImageStatus};
use k8s_cri::v1::{Container, ContainerState};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;

use super::clock::now;
use crate::containers::env::{self, Environments, Stop};
use crate::containers::pre_stop;
use crate::containers::stops::Begin;
use crate::nodeimage::NodeImageError;
use crate::runtime::Runtime;
use crate::runtime::cri::CriError;
use crate::runtime::inspect::{self, Facts};
use crate::tasks::{Key, Outcome, Resolved};

/// The result of a job.
pub(super) enum Done {
    /// The node was checked for an image.
    Looked(Key, Result<Option<Resolved>, CriError>),
    /// A try to pull is over.
    Ended(u64, Outcome),
    /// Pods were inspected.
    Inspected(Result<Found, CriError>),
    /// The container may be stopped: its kubelet had the time that it needs to see the pod's new
    /// labels.
    StopDue(Stop),
    /// The stop of the container with this id is over; it stopped, or it did not.
    Stopped(String, Result<(), CriError>),
    /// The node's containers, listed to find the containers to stop.
    Seen(Result<Vec<Container>, CriError>),
    /// The stop of a container is over: the error of its `preStop` hook, and whether the container
    /// stopped.
    Halted(Box<Begin>, Option<String>, Result<(), CriError>),
    /// A status was written; the string is the new `resourceVersion`.
    Written(Result<(NodeImageStatus, String), NodeImageError>),
}

/// Checks whether the node has an image.
pub(super) async fn look(runtime: Arc<Runtime>, key: Key, done: mpsc::Sender<Done>) {
    let found = runtime.resolve(&key.reference()).await;
    // A send fails only when the daemon ends. The same holds for every send in this file.
    let _ = done.send(Done::Looked(key, found)).await;
}

/// The result of an inspection of pods.
#[derive(Default)]
pub(super) struct Found {
    pub(super) pods: Vec<InspectedPod>,
    pub(super) facts: Vec<ImageFact>,
    /// Containers to stop.
    pub(super) stop: Vec<Stop>,
}

/// The input of an inspection of pods.
pub(super) struct Question {
    pub(super) pods: Vec<InspectPod>,
    /// Names that images may have.
    pub(super) names: Vec<String>,
    /// The inspection results so far.
    pub(super) before: Vec<InspectedPod>,
    /// The ids of the containers that are being stopped.
    pub(super) stopping: HashSet<String>,
}

/// Inspects pods.
pub(super) async fn inspect(runtime: Arc<Runtime>, question: Question, done: mpsc::Sender<Done>) {
    let answer = answer(&runtime, &question).await;
    let _ = done.send(Done::Inspected(answer)).await;
}

async fn answer(runtime: &Runtime, question: &Question) -> Result<Found, CriError> {
    let Question {
        pods,
        names,
        before,
        stopping,
    } = question;
    let one = match pods.as_slice() {
        [pod] => Some(pod.uid.as_str()),
        _ => None,
    };
    let containers = runtime.cri.containers(one).await?;
    let images = runtime.cri.images().await?;
    let facts = Facts {
        runtime: runtime.cri.name(),
        containers: &containers,
        images: &images,
        names,
    };
    let mut answers = inspect::inspect(pods, facts);
    let mut known = Environments::new();
    for id in env::requested_ids(pods, &answers) {
        let info = runtime.cri.container_info(id).await?;
        known.extend(info.and_then(|info| Some((id.to_owned(), env::environment(&info)?))));
    }
    env::answer(pods, &mut answers, &known, |id| stopping.contains(id));
    let stop = env::to_stop(pods, &answers, &containers);
    let pods = inspect::timed(answers, before, now().time);
    let named: BTreeSet<&String> = pods
        .iter()
        .flat_map(|pod| &pod.containers)
        .map(|c| &c.image)
        .filter(|image| !image.is_empty())
        .collect();
    let mut facts = Vec::new();
    for image in named {
        // The runtime has no image under a name that it refuses.
        let found = match runtime.resolve(image).await {
            Err(CriError::Refused(_)) => None,
            found => found?,
        };
        facts.push(ImageFact {
            image: image.clone(),
            image_ids: found.map(|r| r.ids).unwrap_or_default(),
        });
    }
    Ok(Found { pods, facts, stop })
}

/// How long the kubelet gets to see changed labels and annotations. They raise no generation, so
/// the daemon cannot see which of them the kubelet has read. A kubelet that still has the old ones
/// would create the container with the old variables, and it would have to be stopped twice.
const KUBELET_SEES: Duration = Duration::from_secs(2);
/// The pause after a stop that failed.
const BEFORE_NEXT_TRY: Duration = Duration::from_secs(2);

/// Waits until the container may be stopped, and says so.
pub(super) async fn await_kubelet(stop: Stop, done: mpsc::Sender<Done>) {
    if stop.is_for_variables() {
        tokio::time::sleep(KUBELET_SEES).await;
    }
    let _ = done.send(Done::StopDue(stop)).await;
}

/// Stops a container as its kubelet would: runs its hook, then stops it within the rest of its
/// grace period.
pub(super) async fn stop(
    runtime: Arc<Runtime>,
    node_ip: Option<IpAddr>,
    stop: Stop,
    done: mpsc::Sender<Done>,
) {
    let begun = Instant::now();
    if let Err(why) = pre_stop::run(
        &runtime,
        (&stop.id, &stop.sandbox),
        &stop.hook,
        stop.grace,
        node_ip,
    )
    .await
    {
        warn!(container = stop.what, why, "the preStop hook failed");
    }
    let result = runtime
        .cri
        .stop_container(&stop.id, pre_stop::left(stop.grace, begun.elapsed()))
        .await;
    if result.is_err() {
        // The agent tries again as soon as it receives the result.
        tokio::time::sleep(BEFORE_NEXT_TRY).await;
    }
    let _ = done.send(Done::Stopped(stop.id, result)).await;
}

/// Lists the containers of all pods to find the containers to stop.
pub(super) async fn see(runtime: Arc<Runtime>, done: mpsc::Sender<Done>) {
    let seen = runtime.cri.containers(None).await;
    let _ = done.send(Done::Seen(seen)).await;
}

/// Stops a container for a request, as [`stop`] does, and sends the result.
pub(super) async fn end(
    runtime: Arc<Runtime>,
    node_ip: Option<IpAddr>,
    begin: Begin,
    done: mpsc::Sender<Done>,
) {
    let begun = Instant::now();
    let hooked = pre_stop::run(
        &runtime,
        (&begin.id, &begin.sandbox),
        &begin.hook,
        begin.grace,
        node_ip,
    )
    .await;
    if let Err(why) = &hooked {
        warn!(container = begin.what, why, "the preStop hook failed");
    }
    let mut result = runtime
        .cri
        .stop_container(&begin.id, pre_stop::left(begin.grace, begun.elapsed()))
        .await;
    if matches!(result, Err(CriError::Refused(_))) {
        // It may have ended by itself, for example by its hook.
        let running = ContainerState::ContainerRunning as i32;
        match runtime.cri.containers(Some(&begin.uid)).await {
            Ok(all) if !all.iter().any(|c| c.id == begin.id && c.state == running) => {
                result = Ok(())
            }
            Ok(_) => {}
            Err(error) => result = Err(error),
        }
    }
    let _ = done
        .send(Done::Halted(Box::new(begin), hooked.err(), result))
        .await;
}
