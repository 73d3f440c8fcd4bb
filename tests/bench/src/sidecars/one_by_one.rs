//! Pods that get another image one after the other: by a SidecarSet, and by a bare patch, which is
//! the limit. They are the same pods, on the same nodes, in turns, so that a slow moment of the
//! machine hits both alike.

use std::time::{Duration, Instant};

use anyhow::Result;
use berth_e2e::objects::{self, CONTAINER, kind};
use berth_e2e::record::PodView;
use berth_e2e::watch::PodWatch;
use berth_simnode::kubelet::image_id;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Options, make_pods, make_set, sidecar_set};
use crate::admission;
use crate::phases::{NAMESPACE, PATIENCE, Stage};

const NAME: &str = "one-by-one";
const SIDECAR: &str = "sidecar";
/// The work that a round leaves is not measured in the next.
const SETTLE: Duration = Duration::from_secs(1);

/// The times of all rounds.
#[derive(Debug, Serialize)]
pub(super) struct Timed {
    pub(super) pods: usize,
    /// How long containers take to start, in seconds.
    pub(super) start_delay: f64,
    /// Seconds of each round, from the first patch until the last pod serves.
    pub(super) sidecar_set: Vec<f64>,
    pub(super) bare: Vec<f64>,
}

/// Measures, with containers that take `delay` to start.
pub(super) async fn measure(stage: &Stage, options: &Options, delay: Duration) -> Result<Timed> {
    let pods = options.one_by_one;
    let name = format!("{NAME}-{}", delay.as_millis());
    let mut spec = containers(0);
    spec["updateStrategy"] = json!({"maxUnavailable": 1});
    make_set(stage, &sidecar_set(&name, &spec)).await?;
    make_pods(stage, &name, pods, delay).await?;
    let watch = PodWatch::start(&stage.client, NAMESPACE, "", Instant::now()).await?;
    let mut timed = Timed {
        pods,
        start_delay: delay.as_secs_f64(),
        sidecar_set: Vec::new(),
        bare: Vec::new(),
    };
    for round in 1..=options.rounds {
        tokio::time::sleep(SETTLE).await;
        timed
            .sidecar_set
            .push(by_sidecar_set(stage, &watch, &name, round).await?);
        tokio::time::sleep(SETTLE).await;
        timed
            .bare
            .push(by_hand(stage, &watch, (&name, pods), round).await?);
    }
    admission::delete(stage).await?;
    Ok(timed)
}

fn containers(round: usize) -> Value {
    json!({"containers": [{"name": SIDECAR, "image": format!("sidecar:{round}")}]})
}

fn runs(pod: &PodView, container: &str, image: &str) -> bool {
    let has = |found: &berth_e2e::record::ContainerView| {
        found.wanted == image && found.image_id == image_id(image)
    };
    pod.serves() && pod.is_seen && pod.containers.get(container).is_some_and(has)
}

async fn by_sidecar_set(stage: &Stage, watch: &PodWatch, name: &str, round: usize) -> Result<f64> {
    let image = format!("sidecar:{round}");
    let began = watch.began().elapsed();
    objects::patch(
        &stage.client,
        "",
        kind::SIDECAR_SET,
        name,
        &json!({"spec": containers(round)}),
    )
    .await?;
    let ended = watch
        .until("all run the sidecar", PATIENCE, |moment| {
            moment
                .pods
                .values()
                .all(|standing| runs(standing.pod, SIDECAR, &image))
        })
        .await?;
    Ok(ended.saturating_sub(began).as_secs_f64())
}

async fn by_hand(
    stage: &Stage,
    watch: &PodWatch,
    (name, pods): (&str, usize),
    round: usize,
) -> Result<f64> {
    let (api, image): (Api<Pod>, _) = (
        Api::namespaced(stage.client.clone(), NAMESPACE),
        format!("main:{round}"),
    );
    let patch = json!({"spec": {"containers": [{"name": CONTAINER, "image": image}]}});
    let (began, mut ended) = (watch.began().elapsed(), Duration::ZERO);
    for number in 0..pods {
        let pod = format!("{name}-{number}");
        api.patch(&pod, &PatchParams::default(), &Patch::Strategic(&patch))
            .await?;
        ended = watch
            .until("the pod serves again", PATIENCE, |moment| {
                moment.pods.values().any(|standing| {
                    standing.pod.name == pod && runs(standing.pod, CONTAINER, &image)
                })
            })
            .await?;
    }
    Ok(ended.saturating_sub(began).as_secs_f64())
}
